//! `ls`: what the catalogue offers, as tables.

use serde_json::{Map, Value};

use super::paper::{Ink, Paper, clip};
use super::signature::{flow, written};
use super::table::{Align, Table};
use crate::catalog::Catalog;
use crate::memory::Bytes;
use crate::model::Shape;
use crate::plan::Val;

/// Columns of a sentence that say what it is about.
const USEFUL: usize = 24;

/// A table for people and for programs.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    pub head: Vec<&'static str>,
    pub align: Vec<Align>,
    pub rows: Vec<Vec<String>>,
    /// The same rows, numbers as numbers.
    pub json: Vec<Value>,
}

impl Listing {
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Listing {
            head: columns.iter().map(|(name, _)| *name).collect(),
            align: columns.iter().map(|(_, align)| *align).collect(),
            ..Listing::default()
        }
    }

    pub fn push(&mut self, cells: Vec<String>, json: Value) {
        self.rows.push(cells);
        self.json.push(json);
    }

    /// The last column gives way where the paper is narrow.
    pub fn render(&self, paper: Paper) -> String {
        let mut table = Table::new(&self.align).headed();
        table.row(self.head.iter().map(|name| (*name).to_owned()).collect());
        let last = self.head.len().saturating_sub(1);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain(self.head.get(column).map(|name| name.chars().count())).max().unwrap_or(0)
        };
        let used: usize = (0..last).map(|column| width(column) + 2).sum();
        let room = paper.width.saturating_sub(used);
        // On a screen too narrow for a useful part of it nothing is cut, and the table is laid out otherwise.
        let room = if paper.screen && room < width(last).min(USEFUL) { usize::MAX } else { room.max(12) };
        for row in &self.rows {
            let mut row = row.clone();
            if let Some(cell) = row.get_mut(last) {
                *cell = clip(cell, room);
            }
            table.row(row);
        }
        table.painted("", paper, &|row, column, cell| match (row, column) {
            (0, _) => paper.ink(Ink::Faint, cell),
            (_, 0) => paper.ink(Ink::Name, cell),
            _ => cell.to_owned(),
        })
    }
}

pub fn stages(catalog: &Catalog) -> Listing {
    let mut list = Listing::new(&[("stage", Align::Left), ("values", Align::Left), ("what it does", Align::Left)]);
    for stage in &catalog.stages {
        let summary = stage.doc.lines().next().unwrap_or("").to_owned();
        let json = serde_json::json!({"name": stage.name, "values": flow(stage), "doc": stage.doc});
        list.push(vec![stage.name.clone(), flow(stage), summary], json);
    }
    list
}

pub fn recipes(catalog: &Catalog) -> Listing {
    let mut list = Listing::new(&[("recipe", Align::Left), ("what it does", Align::Left)]);
    for recipe in &catalog.recipes {
        let decl = &recipe.decl;
        let summary = decl.doc.lines().next().unwrap_or("").to_owned();
        list.push(
            vec![decl.name.clone(), summary],
            serde_json::json!({"name": decl.name, "file": recipe.file, "doc": decl.doc}),
        );
    }
    list
}

pub fn devices(catalog: &Catalog) -> Listing {
    let mut list = Listing::new(&[
        ("device", Align::Left),
        ("GPU", Align::Right),
        ("RAM", Align::Right),
        ("disk", Align::Right),
        ("CUDA", Align::Right),
        ("bf16", Align::Left),
        ("threads", Align::Right),
        ("", Align::Left),
    ]);
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "–".to_owned(), |n| Bytes(n).to_string());
    for decl in &catalog.devices {
        let device = &decl.device;
        let cuda = device.cuda.map(|c| format!("{}.{}", c.0, c.1));
        let bf16 = device.cuda.map(crate::plan::Capability::has_bf16);
        let row = vec![
            decl.name.clone(),
            size(device.gpu),
            size(device.ram),
            size(device.disk),
            cuda.clone().unwrap_or_else(|| "–".into()),
            match bf16 {
                Some(true) => "yes".into(),
                Some(false) => "no".into(),
                None => "–".into(),
            },
            device.threads.map_or_else(|| "–".to_owned(), |n| n.to_string()),
            decl.doc.replace('\n', " "),
        ];
        let json = serde_json::json!({"name": decl.name, "gpu": device.gpu, "ram": device.ram, "disk": device.disk,
                                      "cuda": cuda, "bf16": bf16, "threads": device.threads, "doc": decl.doc});
        list.push(row, json);
    }
    list
}

pub fn shapes(catalog: &Catalog) -> Listing {
    let mut list = Listing::new(&[
        ("shape", Align::Left),
        ("parameters", Align::Right),
        ("bf16", Align::Right),
        ("layers", Align::Right),
        ("hidden", Align::Right),
        ("vocab", Align::Right),
        ("positions", Align::Right),
    ]);
    for decl in &catalog.shapes {
        let key =
            |name: &str| decl.keys.iter().find(|(key, _)| key == name).map_or("–".to_owned(), |(_, v)| written(v));
        let parameters = Shape::from_keys(&decl.keys).ok().map(|shape| shape.parameters());
        let row = vec![
            decl.name.clone(),
            parameters.map_or("–".into(), count),
            parameters.map_or("–".into(), |n| Bytes(n.saturating_mul(2)).to_string()),
            key("layers"),
            key("hidden"),
            key("vocab"),
            key("positions"),
        ];
        let mut json = Map::new();
        json.insert("name".into(), decl.name.clone().into());
        json.insert("parameters".into(), parameters.into());
        for (key, val) in &decl.keys {
            let value = match val {
                Val::Int(n) => (*n).into(),
                Val::Float(x) => (*x).into(),
                Val::Bool(b) => (*b).into(),
                other => Value::from(written(other)),
            };
            json.insert(key.clone(), value);
        }
        list.push(row, Value::Object(json));
    }
    list
}

/// `8.03 B`, `134.5 M`.
pub fn count(n: u64) -> String {
    match n {
        1_000_000_000.. => format!("{:.2} B", n as f64 / 1e9),
        1_000_000.. => format!("{:.1} M", n as f64 / 1e6),
        _ => format!("{:.1} k", n as f64 / 1e3),
    }
}
