//! Good files and bad ones, with the place that is blamed.

use super::*;

fn blamed(name: &str, text: impl AsRef<[u8]>, format: Format) -> Fault {
    read_text(name, text, format).unwrap_err()
}

fn texts(rows: &[Row]) -> Vec<(u64, &str)> {
    let mut texts = Vec::new();
    for row in rows {
        let Content::Text(text) = &row.content else { panic!("{row:?}") };
        texts.push((row.origin.line, text.as_str()));
    }
    texts
}

#[test]
fn arrays_and_lines_give_the_same_rows() {
    let array = "[\n  {\"text\": \"a\"},\n  {\"text\": \"b\", \"more\": 1}\n]\n";
    let rows = read_text("a.json", array, Format::Text).unwrap();
    assert_eq!(texts(&rows), [(2, "a"), (3, "b")]);
    let lines = "\u{FEFF}{\"text\": \"a\"}\r\n\r\n{\"text\": \"b\"}";
    for name in ["a.jsonl", "a.json"] {
        let rows = read_text(name, lines, Format::Text).unwrap();
        assert_eq!(texts(&rows), [(1, "a"), (3, "b")]);
    }
    let rows = read_text("a.jsonl", array, Format::Text).unwrap();
    assert_eq!(rows.len(), 2);
}

#[test]
fn plain_text_is_paragraphs() {
    let rows = read_text("a.txt", "one\r\ntwo\n \n\n{three\n", Format::Text).unwrap();
    assert_eq!(texts(&rows), [(1, "one\ntwo"), (5, "{three")]);
}

#[test]
fn json_of_another_name_is_not_taken_for_prose() {
    assert_eq!(texts(&read_text("rows", "{\"text\": \"a\"}", Format::Text).unwrap()), [(1, "a")]);
    assert_eq!(texts(&read_text("rows", "prose", Format::Text).unwrap()), [(1, "prose")]);
}

#[test]
fn files_come_in_the_order_given() {
    let (_a, first) = file("z.jsonl", "{\"text\": \"1\"}");
    let (_b, second) = file("a.jsonl", "{\"text\": \"2\"}");
    let settings = Settings::new(vec![first, second], Format::Text);
    let rows = read(&settings).unwrap();
    assert_eq!(texts(&rows), [(1, "1"), (1, "2")]);
    assert_eq!(rows[1].origin.file, 1);
    assert!(settings.place(rows[1].origin).ends_with("a.jsonl:1"));
}

#[test]
fn a_bad_line_is_blamed_where_it_is() {
    let fault = blamed("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"é\" x}\n", Format::Text);
    assert_eq!(spot(&fault), ("data.bad_json", Some(2), Some(14)), "{fault}");
    let fault = blamed("a.jsonl", "{\"text\": \"a\"}\n\n[1]\n", Format::Text);
    assert_eq!(spot(&fault), ("data.bad_row", Some(3), Some(1)));
    let fault = blamed("a.jsonl", "{\n \"text\": \"a\"\n}\n", Format::Text);
    assert_eq!(spot(&fault).1, Some(1));
    assert!(fault.notes.iter().any(|note| note.contains("array")), "{fault:?}");
}

#[test]
fn a_bad_row_of_an_array_is_blamed_where_it_is() {
    let fault = blamed("a.json", "[\n {\"text\": \"a\"},\n {\"text\": 7}\n]", Format::Text);
    assert_eq!(spot(&fault), ("data.bad_row", Some(3), Some(3)), "{fault}");
    let fault = blamed("a.json", "[{\"text\": \"a\"},\n {\"txt\": \"b\"}]", Format::Text);
    assert_eq!(spot(&fault), ("data.bad_row", Some(2), Some(2)), "{fault}");
    let fault = blamed("a.json", "[{\"text\": \"a\"},\n {\"text\": \"b\" \"c\"}]", Format::Text);
    assert_eq!(spot(&fault), ("data.bad_json", Some(2), Some(15)), "{fault}");
    let fault = blamed("a.json", "[{\"text\": \"a\"}\n {\"text\": \"b\"}]", Format::Text);
    assert_eq!(spot(&fault), ("data.bad_json", Some(2), Some(2)), "{fault}");
    let fault = blamed("a.json", "[{\"text\": \"a\"},\n", Format::Text);
    assert!(fault.message.contains("ends inside"), "{fault}");
    let fault = blamed("a.json", "[{\"text\": \"a\"},]", Format::Text);
    assert_eq!(spot(&fault), ("data.bad_json", Some(1), Some(16)), "{fault}");
    let fault = blamed("a.json", "[{\"text\": \"a\"}] x", Format::Text);
    assert_eq!(spot(&fault), ("data.bad_json", Some(1), Some(17)), "{fault}");
    let fault = blamed("a.json", "[{\"text\": \"é\\q\"}]", Format::Text);
    assert_eq!(spot(&fault).1, Some(1), "{fault}");
}

#[test]
fn a_wrong_format_suggests_the_right_one() {
    let cases = [
        (Format::Alpaca, r#"{"messages": []}"#, "`format=chat`"),
        (Format::Text, r#"{"instruction": "a", "output": "b"}"#, "`format=alpaca`"),
        (
            Format::Alpaca,
            r#"{"question": "a", "answer": "b"}"#,
            "`format=completion prompt=\"question\" completion=\"answer\"`",
        ),
        (Format::Text, r#"{"content": "a", "id": 3}"#, "`format=text text=\"content\"`"),
        (Format::Chat, r#"{"input_ids": [1]}"#, "`format=tokens`"),
    ];
    for (format, row, help) in cases {
        let fault = blamed("a.jsonl", row, format);
        assert_eq!((fault.code, fault.help.as_deref()), ("data.bad_row", Some(help)), "{row}");
    }
}

#[test]
fn rows_of_the_wrong_form_say_what_is_wrong() {
    let cases = [
        (Format::Chat, r#"{"messages": [{"role": "assistent", "content": "a"}]}"#, "nobody speaks as `assistent`"),
        (Format::Chat, r#"{"messages": [{"role": "user"}]}"#, "no `content`"),
        (Format::Chat, r#"{"messages": [{"role": "user", "content": [{"type": "image"}]}]}"#, "type `image`"),
        (Format::Chat, r#"{"messages": "hello"}"#, "is a string"),
        (Format::Alpaca, r#"{"instruction": "a", "output": null}"#, "`output` is null"),
        (Format::Alpaca, r#"{"instruction": "a", "output": "b", "history": [["c"]]}"#, "list of pairs"),
        (Format::Tokens, r#"{"input_ids": [1, -2]}"#, "entry 2"),
        (Format::Tokens, r#"{"input_ids": [1, 2], "labels": [1]}"#, "1 labels for 2 ids"),
        (Format::Tokens, r#"{"input_ids": [1, 2], "labels": [-100, 3]}"#, "entry 2 of `labels`"),
        (Format::Tokens, r#"{"input_ids": [1, 2], "attention_mask": [1, 0]}"#, "padded"),
    ];
    for (format, row, words) in cases {
        let fault = blamed("a.jsonl", row, format);
        assert!(fault.code == "data.bad_row" && fault.message.contains(words), "{row}: {fault}");
    }
}

#[test]
fn bytes_that_are_no_text_are_blamed() {
    let fault = blamed("a.jsonl", b"{\"text\": \"a\"}\n{\"text\": \"\xC3\xA9\xFF\"}", Format::Text);
    assert_eq!(spot(&fault), ("data.not_utf8", Some(2), Some(12)), "{fault}");
    let fault = blamed("a.json", b"[{\"text\": \"a\"},\n{\"text\": \"\xFF\"}]", Format::Text);
    assert_eq!(spot(&fault), ("data.not_utf8", Some(2), Some(11)), "{fault}");
    let fault = blamed("a.txt", b"ab\ncd\xFF", Format::Text);
    assert_eq!(spot(&fault), ("data.not_utf8", Some(2), Some(3)), "{fault}");
}

#[test]
fn files_that_hold_no_rows_are_refused() {
    for (name, text) in [("a.jsonl", ""), ("a.json", "[]"), ("a.json", " \n"), ("a.txt", "\n\n")] {
        assert_eq!(blamed(name, text, Format::Text).code, "data.empty", "{name} {text:?}");
    }
    for (name, bytes) in [("a.parquet", &b"PAR1xx"[..]), ("a.jsonl", b"\x1F\x8B\x08"), ("a.json", b"\xFF\xFE[\0")] {
        assert_eq!(blamed(name, bytes, Format::Alpaca).code, "data.unknown_file", "{name}");
    }
    assert_eq!(blamed("a.txt", "hello", Format::Alpaca).code, "data.unknown_file");
    assert_eq!(blamed("a.csv", "text\nhello", Format::Text).code, "data.unknown_file");
    let missing = read(&Settings::new(vec!["no/such/file.jsonl".into()], Format::Text)).unwrap_err();
    assert_eq!(missing.code, "file.missing");
    let folder = tempfile::tempdir().unwrap();
    let fault = read(&Settings::new(vec![folder.path().to_owned()], Format::Text)).unwrap_err();
    assert_eq!(fault.code, "data.unknown_file");
}

/// A file cut anywhere, or with any byte replaced, is read or refused at a line: it never brings the program down.
#[test]
fn a_damaged_file_is_refused_with_its_line() {
    let (folder, path) = file("a.json", "");
    let whole = "[{\"messages\": [{\"role\": \"user\", \"content\": \"é\"}]},\n {\"messages\": []}]".as_bytes();
    let check = |bytes: &[u8], must_fail: bool| {
        std::fs::write(&path, bytes).unwrap();
        match read(&Settings::new(vec![path.clone()], Format::Chat)) {
            Ok(_) => assert!(!must_fail, "{}", String::from_utf8_lossy(bytes)),
            Err(fault) if fault.code == "data.empty" => {}
            Err(fault) => assert!(fault.code == "data.unknown_file" || spot(&fault).1.is_some(), "{fault:?}"),
        }
    };
    for cut in 0..whole.len() {
        check(&whole[..cut], true);
        for byte in [b'{', b'"', b',', b'\\', 0x80, 0] {
            let mut changed = whole.to_vec();
            changed[cut] = byte;
            check(&changed, false);
        }
    }
    drop(folder);
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    let deep = format!("{{\"text\": {}", "[".repeat(100_000));
    assert_eq!(blamed("a.jsonl", deep, Format::Text).code, "data.bad_json");
}

#[test]
fn a_hostile_template_ends_in_an_error() {
    let bytes = Tokenizer::bytes().unwrap();
    let conversation = Conversation { messages: vec![Message::new(Role::User, "a")], tools: None };
    let render = |source: &str| ChatTemplate::new(source, &bytes).unwrap().render(&conversation, true);
    let nested = "{% for a in range(9999) %}{% for b in range(9999) %}{% set x = a %}{% endfor %}{% endfor %}";
    assert!(render(nested).unwrap_err().message.contains("more steps"));
    let fault = render("a\n{{ raise_exception('roles must alternate') }}").unwrap_err();
    assert_eq!(fault.message, "the chat template fails: roles must alternate (line 2 of the template)");
    let flood = "{% for a in range(9999) %}{{ 'xxxxxxxxxx' * 9999 }}{% endfor %}";
    assert_eq!(render(flood).unwrap_err().code, "template.failed");
    assert_eq!(ChatTemplate::choose(Some("lama3"), &bytes).unwrap_err().code, "template.unknown");
    let fault = ChatTemplate::new("a\n{% if %}", &bytes).unwrap_err();
    assert!(fault.code == "template.syntax" && fault.message.contains("line 2"), "{fault}");
}

#[test]
fn templates_see_what_transformers_gives_them() {
    let bytes = Tokenizer::bytes().unwrap();
    let mut message = Message::new(Role::User, " a<b ");
    message.rest = Some(Box::new(json!({"tool_calls": [{"n": 1, "é": "x"}]}).as_object().unwrap().clone()));
    let conversation = Conversation { messages: vec![message], tools: Some(Box::new(json!([{"name": "f"}]))) };
    let render = |source: &str| ChatTemplate::new(source, &bytes).unwrap().render(&conversation, false).unwrap();
    assert_eq!(render("{{ messages[0]['content'].strip() }}|{{ bos_token }}{{ eos_token }}"), "a<b|<s></s>");
    assert_eq!(render("{{ messages[0].tool_calls | tojson }}"), r#"[{"n": 1, "é": "x"}]"#);
    assert_eq!(render("{{ tools | tojson(indent=2) }}"), "[\n  {\n    \"name\": \"f\"\n  }\n]");
    assert_eq!(render("{{ none }} {{ true }} {{ add_generation_prompt }}"), "None True False");
    assert_eq!(render("{{ strftime_now('%d %b %Y') }}"), "26 Jul 2024");
    assert_eq!(render("{% generation %}x{%- endgeneration -%}\n y"), "xy");
    assert_eq!(render("  {% if true %}\n  a\n  {% endif %}\nb"), "  a\nb");
}

/// A template with what the templates of Llama 3.1, Qwen and Mistral use; the expected text is transformers' own.
#[test]
fn a_wide_template_renders_as_in_transformers() {
    let bytes = Tokenizer::bytes().unwrap();
    let line = r#"{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "  q1 "},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\na1"}, {"role": "assistant", "content": "",
         "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1, "y": [true, null]}}}]},
        {"role": "tool", "content": "{\"r\": 2}"}, {"role": "user", "content": "q2"}],
        "tools": [{"name": "f", "parameters": {"a": {"type": "int"}}}]}"#;
    let rows = read_text("rows.jsonl", line.replace('\n', " "), Format::Chat).unwrap();
    let Content::Chat(conversation) = &rows[0].content else { panic!("no chat") };
    let template = ChatTemplate::new(include_str!("wide.jinja"), &bytes).unwrap();
    assert_eq!(template.render(conversation, true).unwrap(), include_str!("wide.expected.txt"));
}
