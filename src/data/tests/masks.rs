//! What counts, held against expectations written by hand.

use super::*;

fn mask(line: &str, settings: &Settings, tokenizer: &Tokenizer) -> String {
    marked(&encoded(line, settings, tokenizer).unwrap(), tokenizer)
}

#[test]
fn text_counts_as_a_whole_and_ends_on_eos() {
    let bytes = Tokenizer::bytes().unwrap();
    let text = settings(Format::Text);
    assert_eq!(mask(r#"{"text": "héllo"}"#, &text, &bytes), "<s>[héllo</s>]");
    assert_eq!(mask(r#"{"text": "hi"}"#, &Settings { eos: false, ..text.clone() }, &bytes), "<s>[hi]");
    assert_eq!(mask(r#"{"text": "hi"}"#, &Settings { bos: false, ..text.clone() }, &bytes), "[hi</s>]");
    assert_eq!(mask(r#"{"text": "hi</s>"}"#, &text, &bytes), "<s>[hi</s>]");
}

#[test]
fn bos_is_never_there_twice() {
    let bytes = Tokenizer::bytes().unwrap();
    let set = encoded(r#"{"text": "<s>hi"}"#, &settings(Format::Text), &bytes).unwrap();
    assert_eq!(set.ids(0), [256, 104, 105, 257]);
    assert_eq!(set.report.duplicate_bos, 1);
    let set = encoded(r#"{"text": "hi"}"#, &settings(Format::Text), &bytes).unwrap();
    assert_eq!(set.report.duplicate_bos, 0);
    // A template that writes the token itself is not a mistake.
    let template =
        ChatTemplate::new("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}", &bytes).unwrap();
    let chat = settings(Format::Chat);
    let row = r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}"#;
    let set = encoded_with(row, &chat, &bytes, Some(&template)).unwrap();
    assert_eq!(marked(&set, &bytes), "<s>a[b</s>]");
    assert_eq!(set.report.duplicate_bos, 0);
}

#[test]
fn completion_counts_what_is_learnt() {
    let bytes = Tokenizer::bytes().unwrap();
    let completion = settings(Format::Completion);
    let line = r#"{"prompt": "2+2=", "completion": "4"}"#;
    assert_eq!(mask(line, &completion, &bytes), "<s>2+2=[4</s>]");
    let all = Settings { train_on: TrainOn::All, ..completion.clone() };
    assert_eq!(mask(line, &all, &bytes), "<s>[2+2=4</s>]");
    let named = Settings { prompt: "question".into(), completion: "answer".into(), ..completion };
    assert_eq!(mask(r#"{"question": "é?", "answer": "ü"}"#, &named, &bytes), "<s>é?[ü</s>]");
}

#[test]
fn alpaca_without_a_template_is_stanfords_prompt() {
    let bytes = Tokenizer::bytes().unwrap();
    let alpaca = settings(Format::Alpaca);
    let line = r#"{"instruction": "Add.", "input": "1 2", "output": "3"}"#;
    assert_eq!(mask(line, &alpaca, &bytes), format!("<s>{}[3</s>]", alpaca_prompt("Add.", "1 2")));
    let line = r#"{"instruction": "B", "output": "b", "history": [["A", "a"]], "system": "S"}"#;
    let (earlier, last) = (alpaca_prompt("A", ""), alpaca_prompt("B", ""));
    assert_eq!(mask(line, &alpaca, &bytes), format!("<s>S\n\n{earlier}[a</s>]{last}[b</s>]"));
}

#[test]
fn alpaca_with_a_template_is_a_conversation() {
    let line = r#"{"instruction": "Add.", "input": "1 2", "output": "3", "system": "Be brief."}"#;
    let expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nAdd.\n1 2<|im_end|>\n\
                    <|im_start|>assistant\n[3<|im_end|>]\n";
    assert_eq!(mask(line, &settings(Format::Alpaca), &chatml()), expected);
}

const TWO_TURNS: &str = r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
    {"role": "user", "content": [{"type": "text", "text": "c"}]}, {"role": "assistant", "content": "d"}]}"#;

#[test]
fn every_answer_counts_up_to_the_end_of_its_turn() {
    let line = TWO_TURNS.replace('\n', " ");
    let expected = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>]\n\
                    <|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n[d<|im_end|>]\n";
    assert_eq!(mask(&line, &settings(Format::Chat), &chatml()), expected);
    let all = Settings { train_on: TrainOn::All, ..settings(Format::Chat) };
    assert_eq!(mask(&line, &all, &chatml()), format!("[{}]", expected.replace(['[', ']'], "")));
}

#[test]
fn sharegpt_is_a_conversation_too() {
    let line = r#"{"system": "S", "conversations": [{"from": "human", "value": "q"}, {"from": "function_call", "value": "{}"},
        {"from": "observation", "value": "r"}, {"from": "gpt", "value": "z"}]}"#;
    let expected = "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n[{}<|im_end|>]\n\
                    <|im_start|>tool\nr<|im_end|>\n<|im_start|>assistant\n[z<|im_end|>]\n";
    assert_eq!(mask(&line.replace('\n', " "), &settings(Format::Chat), &chatml()), expected);
}

#[test]
fn a_template_without_an_end_gets_the_end_of_text() {
    let bytes = Tokenizer::bytes().unwrap();
    let chat = settings(Format::Chat);
    let row = TWO_TURNS.replace('\n', " ");
    let template = ChatTemplate::choose(Some("chatml"), &bytes).unwrap().unwrap();
    let set = encoded_with(&row, &chat, &bytes, Some(&template)).unwrap();
    assert!(marked(&set, &bytes).ends_with("assistant\n[d<|im_end|>\n</s>]"), "{}", marked(&set, &bytes));
    let set = encoded_with(&row, &Settings { eos: false, ..chat }, &bytes, Some(&template)).unwrap();
    assert!(marked(&set, &bytes).ends_with("assistant\n[d<|im_end|>\n]"));
}

#[test]
fn tokens_are_taken_as_they_are() {
    let bytes = Tokenizer::bytes().unwrap();
    let tokens = settings(Format::Tokens);
    let set = encoded(r#"{"input_ids": [5, 6, 7], "labels": [-100, -100, 7]}"#, &tokens, &bytes).unwrap();
    assert_eq!((set.ids(0), set.counted(0)), (&[5, 6, 7][..], &[false, false, true][..]));
    let set = encoded(r#"{"input_ids": [5, 6]}"#, &tokens, &bytes).unwrap();
    assert_eq!((set.ids(0), set.report.counted), (&[5, 6][..], 1));
    assert_eq!(set.report.highest_id, 6);
}

#[test]
fn truncation_keeps_the_end() {
    let bytes = Tokenizer::bytes().unwrap();
    let short = |max, format| Settings { max_len: Some(max), long: Long::Truncate, ..settings(format) };
    let set = encoded(r#"{"text": "abcdefgh"}"#, &short(5, Format::Text), &bytes).unwrap();
    assert_eq!(marked(&set, &bytes), "<s>[abc</s>]");
    assert_eq!((set.report.truncated, set.report.longest, set.report.longest_read), (1, 5, 10));
    // The newline after the end of a turn goes, the end of the turn stays.
    let line = r#"{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "answer"}]}"#;
    let set = encoded(line, &short(23, Format::Chat), &chatml()).unwrap();
    assert!(marked(&set, &chatml()).ends_with("assistant\n[an<|im_end|>]"), "{}", marked(&set, &chatml()));
    assert_eq!(set.ids(0).len(), 23);
}

#[test]
fn a_split_row_teaches_every_token_once() {
    let bytes = Tokenizer::bytes().unwrap();
    let short = |max, format| Settings { max_len: Some(max), long: Long::Split, ..settings(format) };
    for max in 2..12 {
        let set = encoded(r#"{"text": "abcdefgh"}"#, &short(max, Format::Text), &bytes).unwrap();
        let labels: Vec<u32> = (0..set.len() as u32).flat_map(|row| set.ids(row)[1..].to_vec()).collect();
        // All but the first token of the whole row, in order.
        assert_eq!(labels, [97, 98, 99, 100, 101, 102, 103, 104, 257], "{max}");
        assert!((0..set.len() as u32).all(|row| set.ids(row).len() <= max));
        assert_eq!(set.report.split, usize::from(max < 10));
        assert_eq!(set.report.counted, 9);
    }
    // Pieces of a prompt alone are left out.
    let line = r#"{"prompt": "abcdefgh", "completion": "xyz"}"#;
    let set = encoded(line, &short(4, Format::Completion), &bytes).unwrap();
    assert!(set.len() < 4 && set.report.counted == 4, "{} rows, {}", set.len(), set.report.counted);
}

#[test]
fn a_cut_within_a_later_prompt_teaches_no_end_there() {
    let line = TWO_TURNS.replace('\n', " ");
    let short = Settings { max_len: Some(25), long: Long::Truncate, ..settings(Format::Chat) };
    let set = encoded(&line, &short, &chatml()).unwrap();
    let text = marked(&set, &chatml());
    assert!(text.ends_with("assistant\n[b<|im_end|>]\n<|im_start|><|im_end|>"), "{text}");
}

#[test]
fn a_row_that_fits_exactly_is_not_long() {
    let bytes = Tokenizer::bytes().unwrap();
    let exact = Settings { max_len: Some(4), ..settings(Format::Text) };
    assert_eq!(encoded(r#"{"text": "ab"}"#, &exact, &bytes).unwrap().report.truncated, 0);
}

#[test]
fn a_row_whose_answer_is_cut_off_goes_and_is_named() {
    let bytes = Tokenizer::bytes().unwrap();
    let lines = "{\"prompt\": \"abcdefgh\", \"completion\": \"z\"}\n{\"prompt\": \"a\", \"completion\": \"z\"}";
    let short = Settings { max_len: Some(6), long: Long::Truncate, ..settings(Format::Completion) };
    let set = encoded(lines, &short, &bytes).unwrap();
    assert_eq!((set.len(), set.report.zero_counted, set.report.answer_cut, set.report.truncated), (1, 1, 1, 0));
    assert_eq!(set.report.zero_places, [Origin { file: 0, line: 1 }]);
}

#[test]
fn a_long_row_is_named_with_the_remedy() {
    let bytes = Tokenizer::bytes().unwrap();
    let lines = "{\"text\": \"ab\"}\n{\"text\": \"abcdef\"}\n{\"text\": \"abcdefgh\"}";
    let strict = Settings { max_len: Some(6), ..settings(Format::Text) };
    let fault = encoded(lines, &strict, &bytes).unwrap_err();
    assert_eq!(spot(&fault), ("data.long_row", Some(2), None));
    assert!(fault.message.contains("8 tokens") && fault.help.as_deref().unwrap().contains("max_len=10"), "{fault:?}");
    let set = encoded(lines, &Settings { long: Long::Drop, ..strict }, &bytes).unwrap();
    assert_eq!((set.len(), set.report.dropped_long), (1, 2));
}

#[test]
fn a_set_without_an_answer_is_refused_with_reasons() {
    let line = r#"{"messages": [{"role": "user", "content": "a"}]}"#;
    let fault = encoded(line, &settings(Format::Chat), &chatml()).unwrap_err();
    assert_eq!(fault.code, "data.no_rows");
    assert!(fault.notes[0].contains("no answer"), "{fault:?}");
    let fault = encoded(r#"{"text": ""}"#, &settings(Format::Text), &chatml()).unwrap_err();
    assert!(fault.notes[0].contains("empty"), "{fault:?}");
}

#[test]
fn chat_without_a_template_is_refused_at_the_row() {
    let bytes = Tokenizer::bytes().unwrap();
    let fault =
        encoded(r#"{"messages": [{"role": "user", "content": "a"}]}"#, &settings(Format::Chat), &bytes).unwrap_err();
    assert_eq!(spot(&fault), ("data.no_template", Some(1), None));
    assert!(fault.help.unwrap().contains("template=chatml"));
}

#[test]
fn a_template_that_rewrites_history_is_refused() {
    let tokenizer = chatml();
    let source = "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}";
    let template = ChatTemplate::new(source, &tokenizer).unwrap();
    let chat = settings(Format::Chat);
    let row = TWO_TURNS.replace('\n', " ");
    let fault = encoded_with(&row, &chat, &tokenizer, Some(&template)).unwrap_err();
    assert_eq!(spot(&fault), ("template.not_incremental", Some(1), None));
    let all = Settings { train_on: TrainOn::All, ..chat };
    assert_eq!(
        marked(&encoded_with(&row, &all, &tokenizer, Some(&template)).unwrap(), &tokenizer),
        "[4abcd<|im_end|>]"
    );
}

#[test]
fn one_thread_and_many_give_the_same() {
    let lines: String = (0..1500).map(|i| format!("{{\"text\": \"row {i} {}\"}}\n", "x".repeat(i % 37))).collect();
    let text = settings(Format::Text);
    let bytes = Tokenizer::bytes().unwrap();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| encoded_with(&lines, &text, &bytes, None).unwrap())
    };
    let (one, many) = (run(1), run(4));
    assert_eq!(one.sizes(), many.sizes());
    assert!((0..1500).all(|row| one.ids(row) == many.ids(row) && one.counted(row) == many.counted(row)));
}

#[test]
fn progress_counts_bytes_and_ends_at_the_total() {
    let (_folder, path) = file("rows.jsonl", "{\"text\": \"a\"}\n".repeat(10_000));
    let (settings, mut seen) = (Settings::new(vec![path], Format::Text), Vec::new());
    tokenise(&settings, &Tokenizer::bytes().unwrap(), None, &mut |done, total| seen.push((done, total))).unwrap();
    // Three windows of at most 4096 rows.
    assert!(seen.len() == 5 && seen.is_sorted() && seen.iter().all(|(_, total)| *total == 140_000), "{seen:?}");
    assert_eq!((seen[0].0, seen[4].0), (0, 140_000));
}
