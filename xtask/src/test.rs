//! `cargo xtask test`: every check there is, one after the other, and a summary.
//!
//! A step that fails does not keep the others from running, unless they need what it makes.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use crate::{
    api::ApiRun,
    bench, browser, chaos, chromium, clients,
    command::{cargo, line_of, root, run, target, without_settings},
    database::TestDatabase,
    node, report,
    rust::{self, WASM_TARGET},
    sqlx,
};

const STEPS: usize = 12;

/// How one step ended.
struct Done {
    name: &'static str,
    time: Duration,
    tests: Tests,
    error: Option<anyhow::Error>,
}

/// How many tests a step ran; a check counts as one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Tests {
    passed: u64,
    failed: u64,
}

#[derive(Default)]
struct Suite {
    done: Vec<Done>,
}

impl Suite {
    /// A step that is one check.
    fn check(&mut self, name: &'static str, work: impl FnOnce() -> anyhow::Result<()>) -> bool {
        self.tests(name, || (Tests { passed: 1, failed: 0 }, work()))
    }

    /// A step that counts its tests. Says whether it passed.
    fn tests(&mut self, name: &'static str, work: impl FnOnce() -> (Tests, anyhow::Result<()>)) -> bool {
        report::step(format_args!("[{} of {STEPS}] {name}", self.done.len() + 1));
        let started = Instant::now();
        let (mut tests, end) = work();
        let error = end.err();
        if let Some(error) = &error {
            report::failure(error);
            if tests.failed == 0 {
                tests = Tests { passed: if tests.passed == 1 { 0 } else { tests.passed }, failed: 1 };
            }
        }
        let passed = error.is_none();
        self.done.push(Done { name, time: started.elapsed(), tests, error });
        passed
    }

    fn skip(&mut self, name: &'static str, needs: &'static str) {
        self.tests(name, || (Tests { passed: 0, failed: 1 }, Err(anyhow::anyhow!("not run: it needs {needs}"))));
    }
}

pub fn test() -> ExitCode {
    let started = Instant::now();
    let mut suite = Suite::default();
    suite.check("formatting", || {
        rust::ensure_components()?;
        run(&mut cargo(&["fmt", "--check", "--all"]))
    });
    suite.check("lints, server side", || {
        lint(&["--release", "--all-targets"])?;
        lint(&[&["--release"], &chaos::PACKAGES[..], &chaos::TARGETS[..]].concat())?;
        lint(&[&["--release", "--bin", "bench"], &bench::PACKAGES[..]].concat())?;
        // As it was built to get here, which spares building what it stands on once more.
        lint(&["--package", "xtask", "--all-targets"])
    });
    suite.check("lints, browser side", || {
        rust::ensure_wasm_target()?;
        lint(&[
            "--release",
            "--package",
            "frontend",
            "--package",
            "app",
            "--features",
            "app/hydrate",
            "--target",
            WASM_TARGET,
        ])
    });
    let browser = suite.check("browser files and their weight", browser::build);
    let server = suite.check("server", rust::build_server);
    database_steps(&mut suite);
    if server {
        suite.tests("crashes and other faults", || count(&mut chaos::tests(), of_result_line));
        suite.tests("API against its description", api_tests);
        suite.tests("official clients against the sandbox", client_tests);
    } else {
        suite.skip("crashes and other faults", "the server");
        suite.skip("API against its description", "the server");
        suite.skip("official clients against the sandbox", "the server");
    }
    if browser && server {
        suite.tests("browser tests", browser_tests);
    } else {
        suite.skip("browser tests", "browser files and server");
    }
    sum_up(&suite, started.elapsed())
}

fn lint(arguments: &[&str]) -> anyhow::Result<()> {
    let clippy = [&["clippy", "--keep-going"], arguments, &["--", "--deny", "warnings"]].concat();
    run(&mut cargo(&clippy))
}

fn database_steps(suite: &mut Suite) {
    let mut database = None;
    suite.check("database", || {
        database = Some(TestDatabase::start()?);
        Ok(())
    });
    let Some(database) = database else {
        suite.skip("descriptions of the queries", "the database");
        suite.skip("Rust tests", "the database");
        return;
    };
    suite.check("descriptions of the queries", || sqlx::check(&database));
    suite.tests("Rust tests", || rust_tests(&database));
    if let Err(error) = database.stop() {
        report::failure(&error);
    }
}

fn rust_tests(database: &TestDatabase) -> (Tests, anyhow::Result<()>) {
    let (ours, ours_end) = cargo_test(&["--package", "xtask"], database);
    let (tests, end) = cargo_test(&["--release", "--no-fail-fast"], database);
    (Tests { passed: ours.passed + tests.passed, failed: ours.failed + tests.failed }, ours_end.and(end))
}

fn cargo_test(arguments: &[&str], database: &TestDatabase) -> (Tests, anyhow::Result<()>) {
    let mut command = cargo(&[&["test"], arguments].concat());
    without_settings(&mut command).env("DATABASE_URL", &database.url);
    count(&mut command, of_result_line)
}

fn of_result_line(line: &str) -> Tests {
    let Some(counts) = line.trim_start().strip_prefix("test result: ") else { return Tests::default() };
    Tests { passed: number_before(counts, " passed"), failed: number_before(counts, " failed") }
}

fn api_tests() -> (Tests, anyhow::Result<()>) {
    let run = match ApiRun::start() {
        Ok(run) => run,
        Err(error) => return (Tests::default(), Err(error)),
    };
    let (tests, end) = count(&mut run.command(), of_last_line);
    (tests, end.and(run.stop()))
}

fn client_tests() -> (Tests, anyhow::Result<()>) {
    let (node, node_end) = client_test("stripe-node", clients::for_node);
    let (python, python_end) = client_test("stripe-python", clients::for_python);
    (Tests { passed: node.passed + python.passed, failed: node.failed + python.failed }, node_end.and(python_end))
}

fn client_test(
    name: &str,
    script: impl Fn(&clients::Sandbox) -> anyhow::Result<Command>,
) -> (Tests, anyhow::Result<()>) {
    let sandbox = match clients::Sandbox::start(name) {
        Ok(sandbox) => sandbox,
        Err(error) => return (Tests::default(), Err(error)),
    };
    let (tests, end) = match script(&sandbox) {
        Ok(mut command) => count(&mut command, of_last_line),
        Err(error) => (Tests::default(), Err(error)),
    };
    (tests, end.and(sandbox.stop()))
}

/// `…; 12 passed, 0 failed`
fn of_last_line(line: &str) -> Tests {
    match line.split_once("; ") {
        Some((_, counts)) if counts.contains(" passed, ") => {
            Tests { passed: number_before(counts, " passed"), failed: number_before(counts, " failed") }
        }
        Some(_) | None => Tests::default(),
    }
}

fn browser_tests() -> (Tests, anyhow::Result<()>) {
    let end2end = root().join("end2end");
    let browser = match prepare_browser(&end2end) {
        Ok(browser) => browser,
        Err(error) => return (Tests::default(), Err(error)),
    };
    let playwright = "node_modules/@playwright/test/cli.js";
    let mut command = crate::command::command("node", &[playwright, "test", "--project=chromium"]);
    without_settings(&mut command)
        .current_dir(&end2end)
        .env("PAYONCE_BIN", target("release/payonce"))
        .env("PAYONCE_SITE_ROOT", target("site"));
    if let Some(browser) = browser {
        command.env("CHROMIUM_PATH", browser);
    }
    // Playwright ends with a line each for what passed, failed, was flaky, and so on.
    count(&mut command, |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [number, "passed", rest @ ..] if rest.len() <= 2 => {
                Tests { passed: number.parse().unwrap_or(0), failed: 0 }
            }
            [number, "failed" | "flaky" | "interrupted"] | [number, "did", "not", "run"] => {
                Tests { passed: 0, failed: number.parse().unwrap_or(0) }
            }
            _ => Tests::default(),
        }
    })
}

fn prepare_browser(end2end: &std::path::Path) -> anyhow::Result<Option<std::path::PathBuf>> {
    if !node::is_there() {
        bail!("the browser tests need Node 18 or newer with npm (Debian: `apt-get install nodejs npm`)");
    }
    node::install(end2end)?;
    chromium::ensure(end2end)
}

/// Runs a command, passes its output on line by line, and adds up what the lines say about tests.
fn count(command: &mut Command, read: impl Fn(&str) -> Tests) -> (Tests, anyhow::Result<()>) {
    let mut tests = Tests::default();
    let end = passing_on(command, |line| {
        let more = read(line);
        tests = Tests { passed: tests.passed + more.passed, failed: tests.failed + more.failed };
    });
    let end = end.and_then(|()| if tests == Tests::default() { bail!("it ran no test") } else { Ok(()) });
    (tests, end)
}

fn passing_on(command: &mut Command, mut each: impl FnMut(&str)) -> anyhow::Result<()> {
    let line = line_of(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{line}` could not be started"))?;
    let output = child.stdout.take().context("its output was not piped")?;
    let mut output = BufReader::new(output);
    let mut bytes = Vec::new();
    // Bytes, since what a test prints need not be text.
    while output.read_until(b'\n', &mut bytes)? > 0 {
        let text = String::from_utf8_lossy(&bytes);
        print!("{text}");
        each(text.trim_end());
        bytes.clear();
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// `ok. 12 passed; 0 failed; …` → 12 for " passed".
fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split(word).next().unwrap_or_default();
    before.rsplit(|letter: char| !letter.is_ascii_digit()).next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn sum_up(suite: &Suite, time: Duration) -> ExitCode {
    report::step(format_args!("summary ({})", report::seconds(time)));
    let mut all = Tests::default();
    for Done { name, time, tests, error } in &suite.done {
        let result = if error.is_none() { "passed" } else { "FAILED" };
        let count = if tests.passed + tests.failed > 1 {
            format!("{} passed, {} failed", tests.passed, tests.failed)
        } else {
            String::new()
        };
        report::note(format!("{result}  {name:<32}{:>14}  {count}", report::seconds(*time)).trim_end());
        all = Tests { passed: all.passed + tests.passed, failed: all.failed + tests.failed };
    }
    println!("\n{} passed, {} failed", all.passed, all.failed);
    if all.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::number_before;

    #[test]
    fn counts_are_read_off_the_result_line() {
        let line = "ok. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.05s";
        assert_eq!((number_before(line, " passed"), number_before(line, " failed")), (12, 3));
        assert_eq!(number_before("", " passed"), 0);
    }
}
