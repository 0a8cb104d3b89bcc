// See element_row.rs. Every statement ends in a semicolon, since lines are joined.
(()=>{
const g=i=>document.getElementById(i),f=g('pay-form'),n=g('stuck'),u=g('unscripted');
if(!f||!n||!u)return;
u.hidden=true;
const d=f.dataset,b=f.querySelector('.pay-button'),t=b.firstElementChild,w=t.textContent;
// Hidden until here, since without scripts it could not pay.
if('payable'in d)f.hidden=false;
// Our own program is dead or late: say so, and let the button be pressed again.
const stuck=_=>{if('hydrated'in d||f.hidden)return;n.hidden=false;delete d.queued;b.removeAttribute('aria-disabled');t.textContent=w};
addEventListener('unhandledrejection',stuck);
addEventListener('error',e=>{if(/pkg/.test(e.filename||e.target.src||e.target.href))stuck()},true);
f.addEventListener('submit',e=>{if('hydrated'in d)return;e.preventDefault();setTimeout(stuck,8100)});
})();
