//! What a replay is compared with: the same stack (axum, sqlx, a pool of the same size), and one look-up of a primary key.

use std::net::SocketAddr;

use axum::{Json, Router, extract::State, http::header, response::IntoResponse, routing::post};
use serde::Deserialize;
use sqlx::{PgPool, postgres::PgPoolOptions};

use crate::shop::POOL_SIZE;

#[derive(Deserialize)]
struct Wanted {
    id: String,
}

pub async fn serve(addr: SocketAddr, database: &str) -> anyhow::Result<()> {
    let pool = PgPoolOptions::new().max_connections(POOL_SIZE).test_before_acquire(false).connect(database).await?;
    let router = Router::new().route("/select", post(select)).with_state(pool);
    axum::serve(tokio::net::TcpListener::bind(addr).await?, router).await?;
    Ok(())
}

async fn select(State(pool): State<PgPool>, Json(wanted): Json<Wanted>) -> impl IntoResponse {
    let body: Result<Vec<u8>, _> =
        sqlx::query_scalar("select body from bench_bodies where id = $1").bind(&wanted.id).fetch_one(&pool).await;
    ([(header::CONTENT_TYPE, "application/json")], body.unwrap_or_default())
}
