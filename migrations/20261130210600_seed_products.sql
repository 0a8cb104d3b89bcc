-- The goods of the demonstration shop. A merchant replaces them; `do nothing` leaves what is already there.

insert into products (sku, position, name, description, picture, currency, price_minor, stock) values
    ('lamp', 1, 'Harbour desk lamp', 'Brass arm, linen shade, a switch that clicks. Made to be mended.', '/pictures/lamp.svg', 'EUR', 4990, 500),
    ('mug', 2, 'Tidemark mug', 'Stoneware with a glaze that breaks where the waterline would be. 350 ml.', '/pictures/mug.svg', 'EUR', 820, 100000),
    ('notebook', 3, 'Logbook', 'Thread-bound, 160 pages, opens flat. Ruled on one side, blank on the other.', '/pictures/notebook.svg', 'EUR', 1999, 100000),
    ('kettle', 4, 'Galley kettle', 'Enamelled steel with a long spout and a lid that stays on. 1.2 litres.', '/pictures/kettle.svg', 'EUR', 6410, 200),
    ('apron', 5, 'Chandler''s apron', 'Washed canvas, crossed at the back, two pockets and a loop for the cloth.', '/pictures/apron.svg', 'EUR', 3850, 300),
    ('clock', 6, 'Watch clock', 'A quiet wall clock of ash wood. One hand sweeps, nothing ticks.', '/pictures/clock.svg', 'EUR', 123450, 40),
    ('tenugui', 7, 'Tenugui cloth', 'Hand-printed cotton from Sakai with a pattern of small waves. 35 by 90 cm.', '/pictures/tenugui.svg', 'JPY', 500, 20000),
    ('chopsticks', 8, 'Lacquered chopsticks', 'Two pairs in a cedar box. Wakasa lacquer over shell and pine needle.', '/pictures/chopsticks.svg', 'JPY', 10000, 200),
    ('coffeepot', 9, 'Dallah coffee pot', 'Tinned brass with a crescent spout, hammered in Muharraq. Serves eight.', '/pictures/coffeepot.svg', 'BHD', 35200, 100),
    ('cardamom', 10, 'Green cardamom', 'Whole pods, 250 g, for the pot beside it.', '/pictures/cardamom.svg', 'BHD', 4500, 500)
on conflict (sku) do nothing;
