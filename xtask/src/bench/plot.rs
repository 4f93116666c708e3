//! Plots as SVG, with axes, units and labels; readable on light and dark pages. It decides how numbers become places, and
//! nothing about what they mean.

use super::spread::short;
use std::fmt::Write as _;

/// A value on a logarithmic axis with the goal that it should reach.
pub struct Bar {
    pub label: String,
    pub value: f64,
    pub goal: f64,
}

/// One of several pictures above each other.
pub struct Panel {
    pub title: String,
    pub lines: Vec<Line>,
}

pub struct Line {
    pub label: String,
    /// At the shares of the plot, in order.
    pub points: Vec<f64>,
}

const WIDTH: f64 = 960.0;
const LINE_COLOURS: [&str; 4] = ["#1a73b8", "#d2691e", "#7a5195", "#2e8b57"];
const GOOD: &str = "#2e8b57";
const BAD: &str = "#c0392b";

/// Places on a logarithmic axis.
struct Log {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Log {
    /// Holds all values, with ends at powers of the base.
    fn holding(values: impl Iterator<Item = f64> + Clone, base: f64, from: f64, to: f64) -> Self {
        let positive = values.filter(|value| *value > 0.0 && value.is_finite());
        let least = positive.clone().fold(f64::MAX, f64::min).min(1e12);
        let most = positive.fold(f64::MIN_POSITIVE, f64::max).max(least);
        let power = |value: f64, up: f64| base.powf((value.log(base) * up).ceil() * up);
        let (least, most) = (power(least, -1.0), power(most, 1.0));
        Self { least, most: if most > least { most } else { least * base }, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.max(self.least) / self.least).ln() / (self.most / self.least).ln();
        self.from + (self.to - self.from) * share.min(1.0)
    }

    fn ticks(&self, base: f64) -> Vec<f64> {
        std::iter::successors(Some(self.least), |tick| Some(tick * base))
            .take_while(|tick| *tick <= self.most * 1.001)
            .collect()
    }
}

/// Horizontal bars from 1 to each value, with a mark at its goal.
pub fn bars(title: &str, bars: &[Bar]) -> String {
    const LEFT: f64 = 430.0;
    const TOP: f64 = 56.0;
    const STEP: f64 = 26.0;
    let values = bars.iter().flat_map(|bar| [bar.value, bar.goal]).chain([1.0]);
    let axis = Log::holding(values, 2.0, LEFT, WIDTH - 70.0);
    let bottom = TOP + STEP * bars.len() as f64;
    let mut svg = open(bottom + 46.0);
    text(&mut svg, 12.0, 26.0, "title", title);
    for tick in axis.ticks(2.0) {
        let x = axis.at(tick);
        rule(&mut svg, (x, TOP - 6.0), (x, bottom), if tick == 1.0 { "axis" } else { "grid" });
        text(&mut svg, x, bottom + 18.0, "middle", &format!("{tick} ×"));
    }
    for (index, bar) in bars.iter().enumerate() {
        let y = TOP + STEP * index as f64;
        let (one, end) = (axis.at(1.0), axis.at(bar.value));
        let colour = if bar.value >= bar.goal { GOOD } else { BAD };
        text(&mut svg, LEFT - 10.0, y + 15.0, "end", &bar.label);
        let (x, width) = (one.min(end), (end - one).abs());
        let _ =
            writeln!(svg, r#"<rect x="{x:.1}" y="{:.1}" width="{width:.1}" height="15" fill="{colour}"/>"#, y + 3.0);
        let goal = axis.at(bar.goal);
        rule(&mut svg, (goal, y), (goal, y + 21.0), "goal");
        text(&mut svg, one.max(end) + 6.0, y + 15.0, "start", &short(bar.value));
    }
    text(&mut svg, LEFT, bottom + 38.0, "start", "logarithmic; a dark mark is the goal; left of 1 is worse");
    close(svg)
}

/// What lies along: a name for each point, the same way apart.
pub struct Along {
    pub title: String,
    pub points: Vec<String>,
}

impl Along {
    pub fn percentiles(shares: &[f64]) -> Self {
        Self { title: "percentile".to_owned(), points: shares.iter().copied().map(percentile).collect() }
    }
}

/// Panels of lines over the same points, a logarithmic value upwards.
pub fn lines(unit: &str, along: &Along, panels: &[Panel]) -> String {
    const LEFT: f64 = 90.0;
    const RIGHT: f64 = WIDTH - 170.0;
    const HEIGHT: f64 = 200.0;
    const STEP: f64 = 290.0;
    let mut svg = open(STEP * panels.len() as f64 + 10.0);
    for (index, panel) in panels.iter().enumerate() {
        let top = STEP * index as f64 + 44.0;
        let bottom = top + HEIGHT;
        let values = panel.lines.iter().flat_map(|line| line.points.iter().copied());
        let axis = Log::holding(values, 10.0, bottom, top);
        let x = |point: usize| LEFT + (RIGHT - LEFT) * point as f64 / (along.points.len().max(2) - 1) as f64;
        text(&mut svg, 12.0, top - 20.0, "title", &panel.title);
        for tick in axis.ticks(10.0) {
            rule(&mut svg, (LEFT, axis.at(tick)), (RIGHT, axis.at(tick)), "grid");
            text(&mut svg, LEFT - 8.0, axis.at(tick) + 4.0, "end", &tick.to_string());
        }
        rule(&mut svg, (LEFT, top), (LEFT, bottom), "axis");
        rule(&mut svg, (LEFT, bottom), (RIGHT, bottom), "axis");
        for (point, name) in along.points.iter().enumerate() {
            text(&mut svg, x(point), bottom + 18.0, "middle", name);
        }
        text(&mut svg, (LEFT + RIGHT) / 2.0, bottom + 36.0, "middle", &along.title);
        text(&mut svg, LEFT + 8.0, top + 4.0, "start", unit);
        let mut labels: Vec<f64> = Vec::new();
        for (line, colour) in panel.lines.iter().zip(LINE_COLOURS.iter().cycle()) {
            let places: Vec<String> = line
                .points
                .iter()
                .enumerate()
                .map(|(i, value)| format!("{:.1},{:.1}", x(i), axis.at(*value)))
                .collect();
            let _ = writeln!(
                svg,
                r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2.5"/>"#,
                places.join(" ")
            );
            if let Some(last) = line.points.last() {
                let y = apart(&mut labels, axis.at(*last));
                let _ = writeln!(
                    svg,
                    r#"<text x="{:.1}" y="{:.1}" style="fill:{colour}">{} {}</text>"#,
                    RIGHT + 8.0,
                    y + 4.0,
                    escape(&line.label),
                    short(*last)
                );
            }
        }
    }
    close(svg)
}

/// Panels of upright bars in groups, one group a point and one bar in it a line; the value is counted from nothing.
pub fn groups(unit: &str, along: &Along, panels: &[Panel]) -> String {
    const LEFT: f64 = 90.0;
    const RIGHT: f64 = WIDTH - 170.0;
    const HEIGHT: f64 = 200.0;
    const STEP: f64 = 290.0;
    let mut svg = open(STEP * panels.len() as f64 + 10.0);
    let group = (RIGHT - LEFT) / along.points.len().max(1) as f64;
    for (index, panel) in panels.iter().enumerate() {
        let top = STEP * index as f64 + 44.0;
        let bottom = top + HEIGHT;
        let most = panel.lines.iter().flat_map(|line| line.points.iter().copied()).fold(f64::MIN_POSITIVE, f64::max);
        text(&mut svg, 12.0, top - 20.0, "title", &format!("{}, {unit}", panel.title));
        let width = group * 0.7 / panel.lines.len().max(1) as f64;
        for (nth, (line, colour)) in panel.lines.iter().zip(LINE_COLOURS.iter().cycle()).enumerate() {
            for (point, value) in line.points.iter().enumerate() {
                let height = value / most * (HEIGHT - 20.0);
                let (x, y) = (LEFT + group * (point as f64 + 0.15) + width * nth as f64, bottom - height);
                let size = format!(r#"width="{:.1}" height="{height:.1}""#, width - 2.0);
                let _ = writeln!(svg, r#"<rect x="{x:.1}" y="{y:.1}" {size} fill="{colour}"/>"#);
                text(&mut svg, x + width / 2.0, y - 5.0, "middle", &short(*value));
            }
            let key = top + 4.0 + 20.0 * nth as f64;
            let _ = writeln!(svg, r#"<rect x="{RIGHT}" y="{key:.1}" width="12" height="12" fill="{colour}"/>"#);
            text(&mut svg, RIGHT + 18.0, key + 11.0, "start", &line.label);
        }
        rule(&mut svg, (LEFT, bottom), (RIGHT, bottom), "axis");
        for (point, name) in along.points.iter().enumerate() {
            text(&mut svg, LEFT + group * (point as f64 + 0.5), bottom + 18.0, "middle", name);
        }
        text(&mut svg, LEFT.midpoint(RIGHT), bottom + 36.0, "middle", &along.title);
    }
    close(svg)
}

/// The nearest place where a label does not lie on one before it.
fn apart(taken: &mut Vec<f64>, wanted: f64) -> f64 {
    const ROOM: f64 = 16.0;
    let free = |y: f64| taken.iter().all(|other| (other - y).abs() >= ROOM);
    let steps = (0..20).flat_map(|step| [wanted + f64::from(step) * ROOM, wanted - f64::from(step) * ROOM]);
    let place = steps.into_iter().find(|y| free(*y)).unwrap_or(wanted);
    taken.push(place);
    place
}

fn percentile(share: f64) -> String {
    if share >= 1.0 { "max".to_owned() } else { format!("p{}", (share * 1_000.0).round() / 10.0) }
}

fn open(height: f64) -> String {
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">
<style>
text {{ font: 13px sans-serif; fill: #222 }} .title {{ font-size: 16px; font-weight: bold }}
.end {{ text-anchor: end }} .middle {{ text-anchor: middle }}
.grid {{ stroke: #ddd }} .axis {{ stroke: #666 }} .goal {{ stroke: #000; stroke-width: 3 }}
</style>
<rect width="100%" height="100%" fill="#fff"/>
"##
    )
}

fn close(mut svg: String) -> String {
    svg.push_str("</svg>\n");
    svg
}

fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64), class: &str) {
    let _ = writeln!(
        svg,
        r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" class="{class}"/>"#,
        from.0, from.1, to.0, to.1
    );
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, words: &str) {
    let _ = writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{}</text>"#, escape(words));
}

fn escape(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_holds_its_values_between_powers() {
        let axis = Log::holding([0.7, 3.0].into_iter(), 2.0, 100.0, 400.0);
        assert_eq!(axis.ticks(2.0), [0.5, 1.0, 2.0, 4.0]);
        let places = [0.5, 1.0, 4.0, 0.0, 9.0].map(|value| axis.at(value).round());
        assert_eq!(places, [100.0, 200.0, 400.0, 100.0, 400.0]);
        let flat = Log::holding([1.0].into_iter(), 10.0, 0.0, 1.0);
        assert_eq!(flat.ticks(10.0), [1.0, 10.0]);
    }

    #[test]
    fn a_bar_begins_at_one_and_its_colour_says_whether_it_reaches_its_goal() {
        let bar = |value| Bar { label: "a < b".into(), value, goal: 2.0 };
        let svg = bars("T", &[bar(4.0), bar(0.5)]);
        assert_eq!((svg.matches(GOOD).count(), svg.matches(BAD).count()), (1, 1));
        assert!(svg.contains("a &lt; b") && svg.contains(">4.00</text>"));
        // Both are as far from 1, one to each side.
        let widths: Vec<_> = svg
            .lines()
            .filter(|line| line.contains("height=\"15\""))
            .filter_map(|line| line.split('"').nth(5))
            .collect();
        assert!(
            (widths[0].parse::<f64>().unwrap() - 2.0 * widths[1].parse::<f64>().unwrap()).abs() < 0.2,
            "{widths:?}"
        );
    }

    #[test]
    fn grouped_bars_are_as_high_as_their_values() {
        let line = |label: &str, points: [f64; 2]| Line { label: label.into(), points: points.into() };
        let panel = Panel { title: "P".into(), lines: vec![line("x", [10.0, 0.0]), line("y", [5.0, 2.5])] };
        let along = Along { title: "A".into(), points: vec!["one".into(), "two".into()] };
        let svg = groups("%", &along, &[panel]);
        let bars = svg.lines().filter(|line| line.starts_with("<rect x=") && !line.contains("height=\"12\""));
        let heights: Vec<f64> = bars.map(|bar| bar.split('"').nth(7).unwrap().parse().unwrap()).collect();
        assert_eq!(heights, [180.0, 0.0, 90.0, 45.0]);
    }

    #[test]
    fn lines_have_every_point_and_labels_that_do_not_meet() {
        let line = |label: &str| Line { label: label.into(), points: vec![1.0, 10.0, 100.0] };
        let panel = Panel { title: "P".into(), lines: vec![line("x"), line("y")] };
        let svg = lines("ms", &Along::percentiles(&[0.5, 0.99, 1.0]), &[panel]);
        let points = svg.lines().find(|line| line.starts_with("<polyline")).unwrap();
        assert_eq!(points.matches(',').count(), 3);
        assert!(svg.contains(">p50</text>") && svg.contains(">p99</text>") && svg.contains(">max</text>"));
        let mut taken = Vec::new();
        assert_eq!([10.0, 10.0, 40.0].map(|y| apart(&mut taken, y)), [10.0, 26.0, 56.0]);
    }
}
