use std::path::Path;

use super::*;

fn read(text: &str) -> (Vec<Item>, Vec<&'static str>) {
    let mut sources = Sources::default();
    let id = sources.add("t.tp", Path::new("."), text);
    let (file, diagnostics) = parse(&sources, id);
    (file.items, diagnostics.iter().map(|d| d.code).collect())
}

fn kind(text: &str) -> ExprKind {
    let mut sources = Sources::default();
    let id = sources.add("t.tp", Path::new("."), text);
    parse_value(&sources, Span::new(id, 0, text.len())).map_or(ExprKind::Wrong, |value| value.kind)
}

#[test]
fn numbers_have_units() {
    assert_eq!(kind("3e-4"), ExprKind::Float(3e-4));
    assert_eq!(kind("-7"), ExprKind::Int(-7));
    assert_eq!(kind("14.75GiB"), ExprKind::Bytes(15_837_691_904));
    assert_eq!(kind("4.35GB"), ExprKind::Bytes(4_350_000_000));
    assert_eq!(kind("1epoch"), ExprKind::Quantity(1.0, Unit::Epochs));
    assert_eq!(kind("2.5%"), ExprKind::Quantity(2.5, Unit::Percent));
    for wrong in ["15Gib", "9999999999999999999", "1e999", "-1GiB", "99999999TiB", "1e3GB", ".5", "1.", "3x"] {
        assert_eq!(kind(wrong), ExprKind::Wrong, "{wrong}");
    }
}

#[test]
fn products_bind_tighter_and_parts_of_a_text_stay_apart() {
    let ExprKind::Binary { operator, right, .. } = kind("(1 + 2 * 3)") else { panic!("no sum") };
    assert_eq!(operator, Operator::Add);
    assert!(matches!(right.kind, ExprKind::Binary { operator: Operator::Multiply, .. }));
    let ExprKind::Text(pieces) = kind(r#""a\"${lr}\$b""#) else { panic!("no text") };
    assert_eq!(pieces.len(), 3);
    assert_eq!(pieces[2], Piece::Plain("$b".into()));
}

#[test]
fn comments_and_blank_lines_are_neutral() {
    let (items, codes) = read("train lora rank=8\n\n# why\n  # rank=9\n\n  alpha=4 # c\n\neval\n");
    assert_eq!(codes, [""; 0]);
    let [Item::Stage(train), Item::Stage(_)] = &items[..] else { panic!("{items:?}") };
    assert_eq!(train.parts.len(), 4);
}

#[test]
fn brackets_run_over_lines_and_end_at_the_next_statement() {
    for text in
        ["x a=[\nb\n  c,\n] d=1\neval\n", "x a=[b\n# c ]\n]\neval", "let a = (1 +\n2)\neval\n", "x a=[b\nc\nd]\neval"]
    {
        let (items, codes) = read(text);
        assert_eq!((items.len(), codes), (2, vec![]), "{text}");
    }
    for text in
        ["x a=[b c\neval\nload data \"x\"", "x a=[b\neval\nload data \"x\" c=[d\n]", "let a = (1\neval\nsave \"x\""]
    {
        let (items, codes) = read(text);
        assert_eq!((items.len(), codes), (3, vec!["syntax.bracket"]), "{text}");
    }
}

#[test]
fn mistakes_of_hands_are_named() {
    let cases = [
        ("x rank: 8", "syntax.colon"),
        ("x rank = 8", "syntax.spaces"),
        ("x rank= 8", "syntax.spaces"),
        ("x rank=", "syntax.no_value"),
        ("x rank==8", "syntax.expected"),
        ("x a/b.json", "syntax.path"),
        ("x ./b", "syntax.path"),
        ("x 'b'", "syntax.single_quote"),
        ("x \"b", "syntax.quote"),
        ("x a=(1", "syntax.bracket"),
        ("x ]", "syntax.bracket"),
        ("x (1]", "syntax.bracket"),
        ("x a=1, b=2", "syntax.comma"),
        ("x --rank 8", "syntax.dashes"),
        ("x a=\"b\"c=1", "syntax.space"),
        ("x size=15 GiB", "syntax.unit"),
        ("x size=15Gib", "syntax.unit"),
        ("x \"a\\d\"", "syntax.escape"),
        ("x \"${1 + 2}\"", "syntax.hole"),
        ("x as b c=1", "syntax.as"),
        ("let x = 1 -2", "syntax.operator"),
        ("let X = 1", "syntax.name"),
        ("let x 1", "syntax.expected"),
        ("param", "syntax.expected"),
        ("\"x\"", "syntax.statement"),
        ("  x", "syntax.indent"),
        ("x\n\ta=1", "syntax.tab"),
    ];
    for (text, code) in cases {
        let (_, codes) = read(text);
        assert_eq!(codes.first(), Some(&code), "{text}: {codes:?}");
    }
}

#[test]
fn deep_brackets_are_refused_before_they_cost_stack() {
    let (_, codes) = read(&format!("let x = {}1{}", "(".repeat(100_000), ")".repeat(100_000)));
    assert_eq!(codes, ["syntax.deep"]);
}

#[test]
fn the_catalogue_reads_without_a_word() {
    for text in [
        include_str!("../../stdlib/stages.tp"),
        include_str!("../../stdlib/devices.tp"),
        include_str!("../../stdlib/shapes.tp"),
    ] {
        assert_eq!(read(text).1, [""; 0]);
    }
    let (items, _) = read(include_str!("../../stdlib/stages.tp"));
    let Some(Item::Decl(load)) = items.get(1) else { panic!("no declaration") };
    assert_eq!(load.members.len(), 11);
    assert!(load.doc.as_deref().is_some_and(|doc| doc.starts_with("A model from")));
}
