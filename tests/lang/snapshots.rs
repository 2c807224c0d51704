//! How diagnostics look.

use std::fs;

use super::check;
use tunepipe::text::render;

/// Files of the suite whose diagnostics are kept as pictures.
const SHOWN: [&str; 18] = [
    "name_stage_unknown",
    "name_argument_unknown",
    "name_symbol_unknown",
    "name_shadow",
    "unit_missing",
    "type_range_param",
    "syntax_colon",
    "syntax_bracket_open",
    "syntax_quote_open",
    "syntax_path_bare",
    "value_ambiguous_data",
    "value_type_quantize_late",
    "value_taken",
    "arg_missing",
    "param_required",
    "budget_device_unknown",
    "recipe_inside",
    "recipe_taken",
];

#[test]
fn diagnostics_look_as_they_did() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for name in SHOWN {
            let text = fs::read_to_string(format!("tests/suite/{name}.tp")).expect("the suite has the file");
            // Expectations are for the suite alone; what stands before them is what a user would have written.
            let strip = |line: &str| line.split("#!").next().unwrap_or("").trim_end().to_owned();
            let text = text.lines().map(strip).collect::<Vec<_>>().join("\n") + "\n";
            let (sources, _, diagnostics) = check("pipeline.tp", &text, &[]);
            insta::assert_snapshot!(name, render(&sources, &diagnostics, false));
        }
    });
}
