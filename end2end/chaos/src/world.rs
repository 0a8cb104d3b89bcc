//! All of it put together: two replicas on one database and one provider, each with proxies of its own.

use std::sync::Arc;

use crate::{
    cluster::{Cluster, Database},
    customer::Customer,
    gate::Gate,
    proxy::Proxy,
    sandbox::Sandbox,
    shop::{Plan, Shop},
};

/// What all worlds share: the cluster and the provider.
#[derive(Debug)]
pub struct Ground {
    /// Postgres.
    pub cluster: Cluster,
    /// The provider.
    pub sandbox: Sandbox,
}

/// Some replicas on a database of their own.
#[derive(Debug)]
pub struct World {
    /// Replicas.
    pub replicas: Vec<Replica>,
    /// Their database.
    pub database: Database,
    /// Who orders and asks.
    pub customer: Customer,
    /// Cluster and provider.
    pub ground: Arc<Ground>,
}

/// A replica and its ways to the world.
#[derive(Debug)]
pub struct Replica {
    /// The process.
    pub shop: Shop,
    /// Its way to Postgres.
    pub postgres: Proxy,
    /// Its way to the provider.
    pub provider: Proxy,
}

impl Ground {
    /// Starts both.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn new() -> anyhow::Result<Arc<Self>> {
        Ok(Arc::new(Self { cluster: Cluster::start().await?, sandbox: Sandbox::start().await? }))
    }
}

impl World {
    /// Starts this many replicas.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn new(ground: &Arc<Ground>, replicas: usize, plan: &Plan) -> anyhow::Result<Self> {
        Self::on(ground, ground.cluster.database().await?, replicas, plan).await
    }

    /// Starts this many replicas on a database that was made for them.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn on(ground: &Arc<Ground>, database: Database, replicas: usize, plan: &Plan) -> anyhow::Result<Self> {
        let mut world = Self { replicas: Vec::new(), database, customer: Customer::new()?, ground: Arc::clone(ground) };
        for number in 0..replicas {
            let replica = world.replica(&format!("replica {number}"), plan).await?;
            world.replicas.push(replica);
        }
        Ok(world)
    }

    /// The replica that is killed.
    pub fn victim(&self) -> &Replica {
        &self.replicas[0]
    }

    /// The replica that lives.
    pub fn other(&self) -> &Replica {
        &self.replicas[1]
    }

    /// The ends of the replicas' logs.
    pub fn logs(&self) -> String {
        self.replicas.iter().map(|replica| replica.shop.log()).collect::<Vec<_>>().join("\n")
    }

    async fn replica(&self, name: &str, plan: &Plan) -> anyhow::Result<Replica> {
        let postgres = Proxy::postgres(self.ground.cluster.place()).await?;
        let provider = Proxy::http(self.ground.sandbox.place()?).await?;
        let shop = Shop::start(name, &self.database.url_through(postgres.port)?, &provider.url(), plan).await?;
        Ok(Replica { shop, postgres, provider })
    }
}

impl Replica {
    /// Where its statements can be held.
    pub fn statements(&self) -> &Gate {
        &self.postgres.gate
    }

    /// Where its calls to the provider can be held.
    pub fn calls(&self) -> &Gate {
        &self.provider.gate
    }
}
