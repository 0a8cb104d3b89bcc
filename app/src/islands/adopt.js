// See adopt.rs. Every statement ends in a semicolon, since lines are joined.
(()=>{
const f=document.getElementById('pay-form');
if(!f)return;
const d=f.dataset,m=f.closest('main').dataset,b=f.querySelector('.pay-button'),t=b.firstElementChild,w=t.textContent,k='payonce:intent:'+m.order;
// The stored UUID wins, unless it is malformed or the one that has failed.
let v=f.intent.defaultValue,s,x;
try{s=JSON.parse(localStorage[k]).intent}catch{}
if(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(s)&&s!=f.replaces.value)v=s,d.known=1;
try{localStorage[k]=JSON.stringify({intent:v})}catch{}
f.intent.value=v;
if(!f.hidden)m.intent=v;
// Until the island lives, a press waits; if the island is dead or late, the plain form goes.
const live=_=>'hydrated'in d,go=()=>{x=1;if(d.queued==1&&!live()){d.queued=2;f.submit()}};
addEventListener('unhandledrejection',go);
addEventListener('error',e=>{if(/pkg/.test(e.filename||e.target.src||e.target.href))go()},true);
f.addEventListener('submit',e=>{
if(live()||x)return;
e.preventDefault();
if(d.queued)return;
d.queued=1;
b.setAttribute('aria-disabled',true);
t.textContent=b.dataset.busy;
setTimeout(go,8e3);
});
// Back from the provider, restored from memory: the button works again.
addEventListener('pageshow',e=>{if(e.persisted&&!live()){delete d.queued;b.removeAttribute('aria-disabled');t.textContent=w}});
})();
