//! The plan as one page: memory over phases as stacked bars with the budget's line, and the table. No script, and
//! nothing is fetched: it can be attached to a pull request and opened years later.

use std::fmt::Write;

use super::TargetPlan;
use crate::memory::{Bytes, PhaseProfile, Place, StageProfile};
use crate::text::{Diagnostic, Sources};

const STYLE: &str = include_str!("plan_page.css");
/// Holdings with a colour of their own; the others of a place share one.
const COLOURS: usize = 8;
/// A budget further above the peak than this would leave the bars too short to read: it is said, not drawn.
const FAR: u64 = 4;

/// The whole page. `file` is the pipeline's name and text.
pub fn plan_html(file: (&str, &str), targets: &[TargetPlan], sources: &Sources, said: &[Diagnostic]) -> String {
    let (name, text) = file;
    let mut out = String::with_capacity(1 << 16);
    let title = escape(name);
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}: plan</title>\n<style>\n{STYLE}</style>\n<body>\n<header>\n<h1>{title}</h1>\n\
         <p class=\"faint\">Planned by tunepipe {}, before any weight is read.</p>\n",
        env!("CARGO_PKG_VERSION")
    );
    for target in targets {
        let _ = writeln!(out, "<p>{} {}</p>", escape(&target.label), verdict(target));
    }
    out.push_str("</header>\n");
    spoken(&mut out, sources, said);
    for target in targets {
        section(&mut out, target);
    }
    let _ = write!(
        out,
        "<section>\n<details>\n<summary>The pipeline</summary>\n<pre><code>{}</code></pre>\n</details>\n</section>\n\
         </body>\n</html>\n",
        escape(text)
    );
    out
}

fn verdict(target: &TargetPlan) -> String {
    if let Some(why) = target.unjudged() {
        return format!("<span class=\"verdict faint\">not judged: {why}</span>");
    }
    let over: Vec<String> = target
        .limits
        .overruns(target.profile.peak())
        .into_iter()
        .map(|over| format!("{} of {} over", Bytes(over.peak.saturating_sub(over.limit)), over.place))
        .collect();
    match over.is_empty() {
        true => "<span class=\"verdict good\">fits</span>".into(),
        false => format!("<span class=\"verdict bad\">does not fit: {}</span>", over.join(", ")),
    }
}

/// Errors and warnings, with what to type instead.
fn spoken(out: &mut String, sources: &Sources, said: &[Diagnostic]) {
    if said.is_empty() {
        return;
    }
    out.push_str("<section>\n<h2>Findings</h2>\n");
    for one in said {
        let kind = if one.is_error() { "" } else { " warning" };
        let place = one.labels.first().map_or_else(String::new, |label| {
            let (line, _) = sources.line_column(label.span);
            format!(" <small>{}:{line}</small>", escape(&sources.get(label.span.source).name))
        });
        let _ = writeln!(
            out,
            "<div class=\"said{kind}\"><p><code>{}</code>{place}<br>{}</p>",
            one.code,
            prose(&one.message)
        );
        for note in &one.notes {
            // A note of several lines is a table laid out with spaces.
            let _ = match note.contains('\n') {
                true => writeln!(out, "<pre>{}</pre>", escape(note)),
                false => writeln!(out, "<p class=\"faint\">{}</p>", prose(note)),
            };
        }
        if let Some(help) = &one.help {
            let _ = writeln!(out, "<p><b>help</b> {}</p>", prose(help));
        }
        out.push_str("</div>\n");
    }
    out.push_str("</section>\n");
}

fn section(out: &mut String, target: &TargetPlan) {
    let _ = writeln!(out, "<section>\n<h2>{} {}</h2>", escape(&target.label), verdict(target));
    for place in target.places() {
        chart(out, target, place);
    }
    table(out, target);
    for remark in &target.remarks {
        let _ = writeln!(out, "<p class=\"faint\">{}</p>", prose(remark));
    }
    out.push_str("</section>\n");
}

/// Every phase of every stage.
fn phases(target: &TargetPlan) -> impl Iterator<Item = (&StageProfile, &PhaseProfile)> {
    target.profile.stages.iter().flat_map(|stage| stage.phases.iter().map(move |phase| (stage, phase)))
}

/// The holdings of a phase in one place, those of one name added up.
fn held(phase: &PhaseProfile, place: Place) -> Vec<(&str, u64)> {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for holding in phase.holdings.iter().filter(|holding| holding.place == place && holding.bytes > 0) {
        match sums.iter_mut().find(|(name, _)| *name == holding.name) {
            Some((_, sum)) => *sum = sum.saturating_add(holding.bytes),
            None => sums.push((&holding.name, holding.bytes)),
        }
    }
    sums
}

/// Names of a place's holdings, those that are ever the largest first.
fn ranked(target: &TargetPlan, place: Place) -> Vec<&str> {
    let mut most: Vec<(&str, u64)> = Vec::new();
    for (_, phase) in phases(target) {
        for (name, bytes) in held(phase, place) {
            match most.iter_mut().find(|(known, _)| *known == name) {
                Some((_, largest)) => *largest = bytes.max(*largest),
                None => most.push((name, bytes)),
            }
        }
    }
    most.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    most.into_iter().map(|(name, _)| name).collect()
}

fn chart(out: &mut String, target: &TargetPlan, place: Place) {
    let peak = target.profile.peak()[place];
    let limit = target.limits.get(place);
    let drawn = limit.filter(|limit| *limit > 0 && limit / FAR <= peak);
    let width = peak.max(drawn.unwrap_or(0)).max(1);
    let names = ranked(target, place);
    let shown = if names.len() > COLOURS + 1 { COLOURS } else { names.len().min(COLOURS) };
    let at = target.profile.summit(place);
    let head = match (limit, at) {
        (_, None) => "nothing".to_owned(),
        (Some(limit), _) if peak < limit / 100 => format!("{} of {}, under 1 %", Bytes(peak), Bytes(limit)),
        (Some(limit), _) => format!("{} of {}, {:.0} %", Bytes(peak), Bytes(limit), percent(peak, limit)),
        (None, _) => format!("{}, not judged", Bytes(peak)),
    };
    let _ = writeln!(out, "<h3>{place} <span class=\"faint\">{head}</span></h3>");
    if at.is_none() {
        return;
    }
    let _ = writeln!(out, "<div class=\"chart\" role=\"img\" aria-label=\"{place} over phases: {}\">", escape(&head));
    for (stage, phase) in phases(target) {
        let bytes = phase.peak[place];
        let summit = at.is_some_and(|(s, p)| s.line == stage.line && std::ptr::eq(p, phase));
        let mut bar = String::new();
        let all = held(phase, place);
        let sum = all.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add).max(1);
        let share = |held: u64| percent(held, width) * (bytes as f64 / sum as f64).min(1.0);
        for (rank, name) in names.iter().take(shown).enumerate() {
            if let Some((_, held)) = all.iter().find(|(known, _)| known == name) {
                segment(&mut bar, &format!("c{rank}"), share(*held), &format!("{name}: {}", Bytes(*held)));
            }
        }
        let small = all.iter().filter(|(name, _)| !names.iter().take(shown).any(|n| n == name));
        let (count, rest) = small.fold((0, 0u64), |(n, sum), (_, bytes)| (n + 1, sum.saturating_add(*bytes)));
        if rest > 0 {
            segment(&mut bar, "rest", share(rest), &format!("{count} smaller: {}", Bytes(rest)));
        }
        if let Some(limit) = drawn {
            let _ = write!(bar, "<u style=\"left:{:.3}%\"></u>", percent(limit, width).min(99.8));
        }
        let _ = writeln!(
            out,
            "<div class=\"row{}\"><span class=\"what\">{} <small>{}</small></span><span class=\"bar\">{bar}</span>\
             <span class=\"bytes\">{}</span></div>",
            if summit { " peak" } else { "" },
            escape(&stage.name),
            escape(phase.name),
            if bytes == 0 { "–".to_owned() } else { Bytes(bytes).to_string() },
        );
    }
    out.push_str("</div>\n<ul class=\"legend\">\n");
    for (rank, name) in names.iter().take(shown).enumerate() {
        let _ = writeln!(out, "<li style=\"--swatch:var(--c{rank})\">{}</li>", escape(name));
    }
    if names.len() > shown {
        out.push_str("<li style=\"--swatch:var(--rest)\">smaller ones</li>\n");
    }
    match (limit, drawn) {
        (Some(limit), Some(_)) => {
            let _ = writeln!(out, "<li class=\"limit\" style=\"--swatch:var(--limit)\">budget {}</li>", Bytes(limit));
        }
        (Some(limit), None) => {
            let _ = writeln!(
                out,
                "<li class=\"faint\" style=\"--swatch:none\">budget {}, far to the right</li>",
                Bytes(limit)
            );
        }
        (None, _) => {}
    }
    out.push_str("</ul>\n");
    breakdown(out, target, place);
}

fn segment(bar: &mut String, class: &str, share: f64, title: &str) {
    let _ = write!(bar, "<i class=\"{class}\" style=\"width:{share:.3}%\" title=\"{}\"></i>", escape(title));
}

/// What lies there at the peak, the largest first.
fn breakdown(out: &mut String, target: &TargetPlan, place: Place) {
    let Some((stage, phase)) = target.profile.summit(place) else { return };
    let mut here: Vec<_> = phase.holdings.iter().filter(|h| h.place == place && h.bytes > 0).collect();
    here.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    let _ = write!(
        out,
        "<details>\n<summary>At the peak, {} · {} in line {}</summary>\n<div class=\"wide\"><table>\n\
         <thead><tr><th>holding</th><th class=\"number\">bytes</th><th>grows with</th></tr></thead>\n<tbody>\n",
        escape(&stage.name),
        escape(phase.name),
        stage.line,
    );
    for holding in here {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"faint\">{}</td></tr>",
            escape(&holding.name),
            Bytes(holding.bytes),
            escape(holding.grows),
        );
    }
    out.push_str("</tbody></table></div>\n");
    let sum = held(phase, place).iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
    if sum > phase.peak[place] {
        let _ = writeln!(
            out,
            "<p class=\"faint\">Some give way to others as the phase goes on, so the peak is {}, less than their sum of \
             {}; the bar shows their shares of it.</p>",
            Bytes(phase.peak[place]),
            Bytes(sum),
        );
    }
    out.push_str("</details>\n");
}

/// A row a phase, a column a place, the peaks in bold.
fn table(out: &mut String, target: &TargetPlan) {
    let places = target.places();
    let peak = target.profile.peak();
    out.push_str(
        "<h3>All phases</h3>\n<div class=\"wide\"><table>\n<thead><tr><th>line</th><th>stage</th><th>phase</th>",
    );
    for place in &places {
        let _ = write!(out, "<th class=\"number\">{place}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (stage, phase) in phases(target) {
        let (line, name, word) = (stage.line, escape(&stage.name), escape(phase.name));
        let _ = write!(out, "<tr><td class=\"faint\">{line}</td><td>{name}</td><td>{word}</td>");
        for place in &places {
            let bytes = phase.peak[*place];
            let class = if bytes > 0 && bytes == peak[*place] { "number peak" } else { "number" };
            let _ = write!(
                out,
                "<td class=\"{class}\">{}</td>",
                if bytes == 0 { "–".into() } else { Bytes(bytes).to_string() }
            );
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n<tfoot>");
    if target.judged() {
        out.push_str("<tr><td></td><td colspan=\"2\">budget</td>");
        for place in &places {
            let words = target.limits.get(*place).map_or("not judged".to_owned(), |limit| Bytes(limit).to_string());
            let over = target.limits.get(*place).is_some_and(|limit| limit < peak[*place]);
            let _ = write!(out, "<td class=\"number{}\">{words}</td>", if over { " bad" } else { "" });
        }
        out.push_str("</tr>");
    }
    out.push_str("</tfoot></table></div>\n");
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64 * 100.0
}

/// A text whose backticks mark code.
fn prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, part) in text.split('`').enumerate() {
        let part = escape(part);
        match at % 2 {
            1 => out.extend(["<code>", &part, "</code>"]),
            _ => out.push_str(&part),
        }
    }
    out
}

/// A text inside HTML, in an attribute too.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Holding, Limits, PerPlace, Profile};
    use crate::text::{SourceId, Span};

    fn target(limit: Option<u64>) -> TargetPlan {
        let holding = |name: &str, bytes| Holding::new(name, Place::Ram, bytes, "");
        let mut peak = PerPlace::default();
        peak.add(Place::Ram, 300).expect("small");
        let holdings = vec![holding("a<b", 200), holding("rows", 100)];
        let phases = vec![PhaseProfile { name: "step", peak, holdings, measured: None }];
        let stage = StageProfile { name: "train lora".into(), span: Span::new(SourceId(0), 0, 0), line: 3, phases };
        TargetPlan {
            label: "here".into(),
            limits: Limits { ram: limit, ..Limits::default() },
            budget: None,
            threads: None,
            profile: Profile { stages: vec![stage] },
            remarks: vec!["1 < 2".into()],
        }
    }

    fn page(limit: Option<u64>) -> String {
        plan_html(("x & y.tp", "let a = \"<\"\n"), &[target(limit)], &Sources::default(), &[])
    }

    #[test]
    fn bars_are_shares_of_the_peak_or_of_the_budget() {
        let fits = page(Some(400));
        assert!(
            fits.contains("width:50.000%") && fits.contains("width:25.000%") && fits.contains("left:99.800%"),
            "{fits}"
        );
        assert!(fits.contains(">fits<"));
        let over = page(Some(200));
        assert!(over.contains("width:66.667%") && over.contains("left:66.667%") && over.contains("100 B of RAM over"));
        // A line far away is said and not drawn.
        let far = page(Some(1 << 40));
        assert!(far.contains("far to the right") && !far.contains("<u ") && far.contains("width:66.667%"));
        assert!(page(None).contains("not judged"));
    }

    #[test]
    fn texts_are_escaped_and_nothing_is_fetched() {
        let page = page(None);
        assert_eq!(prose("use `a<b` now"), "use <code>a&lt;b</code> now");
        assert!(page.contains("x &amp; y.tp") && page.contains("a&lt;b") && page.contains("1 &lt; 2"));
        assert!(!page.contains("a<b") && !page.contains("<script") && !page.contains("http") && !page.contains("url("));
    }
}
