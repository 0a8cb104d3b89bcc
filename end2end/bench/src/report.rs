//! What was measured, for people as it comes, and as JSON at the end.

use std::path::Path;

use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// Which way a number should go from its floor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Better {
    Higher,
    Lower,
}

pub struct Report {
    quick: bool,
    heading: String,
    values: Vec<Value>,
}

impl Report {
    pub fn new(quick: bool) -> Self {
        if quick {
            println!("A quick run: it shows that everything works. Its numbers mean nothing.");
        }
        Self { quick, heading: String::new(), values: Vec::new() }
    }

    /// The settings that a fast number could have been bought with.
    pub fn durability(&mut self, settings: &[(String, String)]) {
        self.heading("Postgres, as it says itself");
        for (name, value) in settings {
            println!("  {name:<24} {value}");
            self.values.push(json!({"part": self.heading, "name": name, "setting": value}));
        }
    }

    pub fn heading(&mut self, heading: &str) {
        println!("\n{heading}");
        heading.clone_into(&mut self.heading);
    }

    /// One number; with its floor, whether it holds.
    pub fn value(&mut self, name: &str, value: f64, floor: Option<(f64, Better)>) {
        let holds = floor.map(|(floor, better)| match better {
            Better::Higher => value >= floor,
            Better::Lower => value <= floor,
        });
        let verdict = match (floor, holds, self.quick) {
            (Some((floor, _)), Some(true), false) => format!("  holds (floor {floor})"),
            (Some((floor, _)), Some(false), false) => format!("  BELOW THE FLOOR of {floor}"),
            (Some(_), Some(_) | None, _) | (None, ..) => String::new(),
        };
        println!("  {name:<56} {value:>12.2}{verdict}");
        let floor = floor.map(|(floor, _)| floor);
        self.values.push(json!({"part": self.heading, "name": name, "value": value, "floor": floor, "holds": holds}));
    }

    /// The same number of each round: median, least and most.
    pub fn series(&mut self, name: &str, of_rounds: &[f64]) {
        let least = of_rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = of_rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        println!("  {name:<56} {:>12.2}  ({least:.2} to {most:.2})", median(of_rounds));
        self.values.push(json!({"part": self.heading, "name": name, "rounds": of_rounds}));
    }

    /// Writes everything.
    pub fn write(&self, out: &Path) -> anyhow::Result<()> {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model =
            cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, name)| name);
        let all = json!({
            "at": OffsetDateTime::now_utc().format(&Rfc3339)?,
            "quick": self.quick,
            "cores": std::thread::available_parallelism()?.get(),
            "processor": model,
            "values": self.values,
        });
        if let Some(folder) = out.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(out, serde_json::to_vec_pretty(&all)?)?;
        println!("\nAll numbers are in {}", out.display());
        Ok(())
    }
}

/// Something to look at while it goes on.
pub fn progress(line: &str) {
    println!("  … {line}");
}

/// The middle one.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
