//! Draws the scaling plot: nanoseconds per scope over threads, both axes logarithmic, one line per library.
//!
//! `cargo run --release --bin plot -- h200.tsv scaling.svg`

use plotters::coord::ranged1d::{KeyPointHint, Ranged};
use plotters::prelude::*;
use std::error::Error;

const TASK: &str = "a. scope, context current";
const LINES: [(&str, RGBColor); 5] = [
    ("raw", RGBColor(110, 110, 110)),
    ("rustacuda", RGBColor(200, 130, 20)),
    ("cudarc", RGBColor(190, 40, 60)),
    ("oxicuda", RGBColor(40, 110, 190)),
    ("custack", RGBColor(20, 140, 70)),
];

/// A logarithmic axis of powers of two, with a tick at each.
struct Doubling(u32, u32);

impl Ranged for Doubling {
    type FormatOption = plotters::coord::ranged1d::DefaultFormatting;
    type ValueType = u32;

    fn map(&self, value: &u32, limit: (i32, i32)) -> i32 {
        let part = f64::from(value / self.0).log2() / f64::from(self.1 / self.0).log2();
        limit.0 + (f64::from(limit.1 - limit.0) * part) as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<u32> {
        std::iter::successors(Some(self.0), |last| Some(last * 2))
            .take_while(|point| *point <= self.1)
            .collect()
    }

    fn range(&self) -> std::ops::Range<u32> {
        self.0..self.1
    }
}

/// The medians of one library, by the number of threads.
fn read(data: &str, library: &str) -> Vec<(u32, f64)> {
    let fields = data.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    fields
        .filter(|fields| fields.len() == 6 && fields[0] == TASK && fields[1] == library)
        .filter_map(|fields| Some((fields[2].parse().ok()?, fields[4].parse().ok()?)))
        .collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let from = arguments.next().unwrap_or_else(|| "h200.tsv".to_owned());
    let to = arguments.next().unwrap_or_else(|| "scaling.svg".to_owned());
    let data = std::fs::read_to_string(&from)?;

    let area = SVGBackend::new(&to, (760, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(
            "Entering and leaving a context that is current, on threads that share it",
            ("sans-serif", 18),
        )
        .margin(12)
        .margin_right(90)
        .x_label_area_size(42)
        .y_label_area_size(62)
        .build_cartesian_2d(Doubling(1, 16), (5.0..2000.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("threads")
        .y_desc("nanoseconds a scope")
        .y_label_formatter(&|value| format!("{value}"))
        .light_line_style(WHITE)
        .label_style(("sans-serif", 14))
        .draw()?;
    for (library, colour) in LINES {
        let points = read(&data, library);
        let Some(last) = points.last().copied() else { continue };
        chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
        // The name is at the end of its line; two lines end close together.
        let up = if library == "rustacuda" { -15 } else { -6 };
        let name = Text::new(library, (8, up), ("sans-serif", 14).into_font().color(&colour));
        chart.draw_series(std::iter::once(EmptyElement::at(last) + name))?;
    }
    area.present()?;
    println!("{to}: drawn from {from}");
    Ok(())
}
