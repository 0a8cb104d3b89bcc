//! The descriptions of the queries in `.sqlx`: they let everybody build without a database, and must match the schema.
//!
//! The compiler itself describes the queries, against a database that has just got all migrations.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::{
    command::{cargo, root, run_quietly, target},
    database::TestDatabase,
    files, report,
};

/// The root of the package that holds all SQL.
const SOURCE: &str = "server/payments/src/lib.rs";
const AGAIN: &str =
    "`cargo xtask sqlx` describes the queries anew; commit .sqlx with the change that made it necessary";

/// `cargo xtask sqlx [--check]`.
pub fn command(only_check: bool) -> anyhow::Result<()> {
    let database = TestDatabase::start()?;
    let done = if only_check { check(&database) } else { renew(&database) };
    database.stop()?;
    done
}

/// Fails where `.sqlx` is not what the queries and the schema make of it.
pub fn check(database: &TestDatabase) -> anyhow::Result<()> {
    let fresh = describe(database)?;
    let fresh = read_all(&fresh)?;
    let differences = differences(&read_all(&root().join(".sqlx"))?, &fresh);
    if !differences.is_empty() {
        bail!(".sqlx is stale:\n   - {}\n   {AGAIN}", differences.join("\n   - "));
    }
    report::note(format_args!("the {} queries are described in .sqlx as they are", fresh.len()));
    Ok(())
}

fn renew(database: &TestDatabase) -> anyhow::Result<()> {
    let fresh = describe(database)?;
    let kept = root().join(".sqlx");
    if kept.exists() {
        fs::remove_dir_all(&kept)?;
    }
    for file in files::under(&fresh) {
        files::write(&kept.join(file.file_name().unwrap_or_default()), &files::read(&file)?)?;
    }
    report::note(format_args!("{} queries are described in .sqlx", files::under(&kept).len()));
    Ok(())
}

/// Describes every query into a folder of its own.
fn describe(database: &TestDatabase) -> anyhow::Result<PathBuf> {
    let folder = target("xtask/sqlx");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let mut check = cargo(&["check", "--quiet", "--release", "--lib"]);
    check.env("SQLX_OFFLINE", "false").env("SQLX_OFFLINE_DIR", &folder).env("DATABASE_URL", &database.url);
    report::timed("describing the queries", || {
        touched(&root().join(SOURCE), || run_quietly(&mut check).context("a query does not fit the schema"))
    })?;
    Ok(folder)
}

/// Makes a source look new meanwhile: the compiler describes queries only where it compiles. Afterwards the source is as old as
/// before, since the other builds of it are still right.
fn touched(source: &Path, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let file = fs::File::options().append(true).open(source)?;
    let age = file.metadata()?.modified()?;
    #[expect(clippy::disallowed_methods, reason = "the age of a file is told by this clock")]
    file.set_modified(SystemTime::now())?;
    let done = work();
    file.set_modified(age)?;
    done
}

type Described = BTreeMap<String, Value>;

fn read_all(folder: &Path) -> anyhow::Result<Described> {
    let mut described = Described::new();
    for file in files::under(folder) {
        let value = serde_json::from_slice(&files::read(&file)?)
            .with_context(|| format!("{} is no description of a query", file.display()))?;
        described.insert(file.file_name().unwrap_or_default().to_string_lossy().into_owned(), value);
    }
    Ok(described)
}

/// One line per query that is missing, superfluous or described otherwise.
fn differences(kept: &Described, fresh: &Described) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, now) in fresh {
        match kept.get(name) {
            None => lines.push(format!("{name} is missing: {}", start_of(now))),
            Some(then) if essence(then) != essence(now) => {
                lines.push(format!("{name} does not match the schema: {}", start_of(now)));
            }
            Some(_) => {}
        }
    }
    let superfluous = kept.iter().filter(|(name, _)| !fresh.contains_key(*name));
    lines.extend(superfluous.map(|(name, then)| format!("{name} is no longer asked: {}", start_of(then))));
    lines
}

/// What a description says, less what depends on the version of PostgreSQL: which columns may be null is read off the plan.
fn essence(description: &Value) -> (&Value, Vec<(&Value, &Value)>, &Value) {
    let columns = description["describe"]["columns"].as_array().into_iter().flatten();
    (
        &description["query"],
        columns.map(|column| (&column["name"], &column["type_info"])).collect(),
        &description["describe"]["parameters"],
    )
}

fn start_of(description: &Value) -> String {
    let query = description["query"].as_str().unwrap_or_default();
    query.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(70).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Described, differences};

    fn described(name: &str, column: &str, nullable: bool) -> Described {
        let columns = json!([{ "ordinal": 0, "name": "n", "type_info": column }]);
        let describe = json!({ "columns": columns, "parameters": { "Left": [] }, "nullable": [nullable] });
        Described::from([(name.to_owned(), json!({ "query": "select n", "describe": describe }))])
    }

    #[test]
    fn a_missing_a_changed_and_a_superfluous_description_are_told() {
        let kept = described("a", "Int4", false);
        assert!(differences(&kept, &described("a", "Int4", true)).is_empty());
        assert!(differences(&kept, &described("a", "Int8", false))[0].contains("does not match"));
        let other = differences(&kept, &described("b", "Int4", false));
        assert!(other[0].contains("missing") && other[1].contains("no longer asked"));
    }
}
