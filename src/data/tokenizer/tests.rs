use super::*;

/// GPT-2's bytes, some words made of them, and three special tokens.
fn gpt2_vocab() -> GgufVocab {
    let mut tokens: Vec<String> = bytes::byte_chars().iter().map(char::to_string).collect();
    tokens.extend(
        ["he", "ll", "hell", "hello", "Ġhello", "12", "<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(String::from),
    );
    let mut token_types = vec![1; tokens.len()];
    token_types[262..].fill(3);
    GgufVocab {
        model: "gpt2".into(),
        pre: Some("smollm".into()),
        tokens,
        token_types,
        merges: ["h e", "l l", "he ll", "hell o", "Ġ hello", "1 2"].map(String::from).to_vec(),
        bos: Some(263),
        eos: Some(264),
        ..GgufVocab::default()
    }
}

/// Characters, their joins with scores, and bytes to fall back to, as SentencePiece's files have them.
fn llama_vocab() -> GgufVocab {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).to_vec();
    tokens.extend((0..=255u8).map(|byte| format!("<0x{byte:02X}>")));
    let pieces =
        [("▁", -9.0), ("a", -9.0), ("b", -9.0), ("ab", -1.0), ("▁a", -2.0), ("▁ab", -3.0), ("bb", -0.5), ("abb", -4.0)];
    let mut scores = vec![0.0; tokens.len()];
    let mut token_types = vec![2, 3, 3];
    token_types.resize(tokens.len(), 6);
    for (piece, score) in pieces {
        tokens.push(piece.into());
        scores.push(score);
        token_types.push(1);
    }
    GgufVocab {
        model: "llama".into(),
        tokens,
        scores,
        token_types,
        bos: Some(1),
        eos: Some(2),
        unk: Some(0),
        ..GgufVocab::default()
    }
}

#[test]
fn bytes_are_their_own_ids() {
    let bytes = Tokenizer::bytes().unwrap();
    let text = "Grüße\n 🙂\0";
    let ids = bytes.encode(text, true).unwrap();
    assert_eq!(ids, text.bytes().map(u32::from).collect::<Vec<_>>());
    assert_eq!(bytes.decode(&ids).unwrap(), text);
    assert_eq!(bytes.encode("<s>a</s>", true).unwrap(), [256, 97, 257]);
    assert_eq!(bytes.encode("<s>", false).unwrap(), [60, 115, 62]);
    assert_eq!((bytes.bos(), bytes.eos(), bytes.pad()), (Some(256), Some(257), Some(258)));
    assert_eq!((bytes.vocab_size(), bytes.stop_ids()), (384, &[257][..]));
    // Special and unused ids have no text of their own.
    assert_eq!(bytes.decode(&[256, 97, 300, 257]).unwrap(), "a");
    assert_eq!(bytes.show(&[256, 97, 257]).unwrap(), "<s>a</s>");
}

#[test]
fn a_saved_tokenizer_comes_back() {
    for tokenizer in [Tokenizer::bytes(), Tokenizer::from_gguf(&gpt2_vocab()), Tokenizer::from_gguf(&llama_vocab())] {
        let tokenizer = tokenizer.unwrap();
        let again = Tokenizer::from_files(TokenizerFiles {
            tokenizer_json: TokenizerJson::Bytes(tokenizer.to_json()),
            tokenizer_config: Some(tokenizer.to_config_json()),
            special_tokens_map: None,
            chat_template: None,
        })
        .unwrap();
        for text in ["hello 12 ab abb", " <s>x</s> é"] {
            assert_eq!(tokenizer.encode(text, true).unwrap(), again.encode(text, true).unwrap());
        }
        assert_eq!((tokenizer.bos(), tokenizer.eos()), (again.bos(), again.eos()));
        assert_eq!(tokenizer.stop_ids(), again.stop_ids());
        assert_eq!(tokenizer.fingerprint(), again.fingerprint());
    }
}

#[test]
fn a_gguf_of_bytes_merges_and_splits_digits() {
    let tokenizer = Tokenizer::from_gguf(&gpt2_vocab()).unwrap();
    assert_eq!(tokenizer.encode("hello hello", true).unwrap(), [259, 260]);
    // `smollm` splits digits before merges see them; GPT-2 does not.
    assert_eq!(tokenizer.encode("12", true).unwrap(), [49, 50]);
    let plain = Tokenizer::from_gguf(&GgufVocab { pre: None, ..gpt2_vocab() }).unwrap();
    assert_eq!(plain.encode("12", true).unwrap(), [261]);
    assert_eq!(tokenizer.encode("a<|im_end|>", true).unwrap(), [97, 264]);
    assert_eq!((tokenizer.bos(), tokenizer.bos_text(), tokenizer.eos()), (None, "<|im_start|>", Some(264)));
    assert_eq!(tokenizer.stop_ids(), [262, 264]);
    assert!(tokenizer.notes().is_empty());
}

#[test]
fn llama3_begins_texts_and_takes_whole_words() {
    let mut vocab = GgufVocab { pre: Some("llama-bpe".into()), ..gpt2_vocab() };
    vocab.merges.truncate(1);
    let tokenizer = Tokenizer::from_gguf(&vocab).unwrap();
    assert_eq!(tokenizer.bos(), Some(263));
    assert_eq!(tokenizer.encode("hello", true).unwrap(), [259]);
}

#[test]
fn an_unknown_pre_tokenizer_is_said() {
    let tokenizer = Tokenizer::from_gguf(&GgufVocab { pre: Some("martian".into()), ..gpt2_vocab() }).unwrap();
    assert!(tokenizer.notes()[0].contains("martian"));
    assert_eq!(tokenizer.encode("12", true).unwrap(), [261]);
}

#[test]
fn a_gguf_of_scores_merges_the_best_first() {
    let tokenizer = Tokenizer::from_gguf(&llama_vocab()).unwrap();
    let id = |text: &str| tokenizer.core.token_to_id(text).unwrap();
    // "▁abb": `bb` has the best score, so `▁ab` never comes to be.
    assert_eq!(tokenizer.encode("abb", true).unwrap(), [id("▁a"), id("bb")]);
    assert_eq!(tokenizer.encode("ab ab", true).unwrap(), [id("▁ab"), id("▁ab")]);
    assert_eq!(tokenizer.encode("é", true).unwrap(), [id("▁"), id("<0xC3>"), id("<0xA9>")]);
    assert_eq!(tokenizer.decode(&tokenizer.encode("ab é", true).unwrap()).unwrap(), "ab é");
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), Some(2)));
}

#[test]
fn a_broken_gguf_vocabulary_is_refused() {
    let refused = |vocab: GgufVocab| Tokenizer::from_gguf(&vocab).unwrap_err();
    assert_eq!(refused(GgufVocab { model: "rwkv".into(), ..gpt2_vocab() }).code, "tokenizer.unknown");
    assert_eq!(refused(GgufVocab { tokens: Vec::new(), ..gpt2_vocab() }).code, "tokenizer.bad");
    assert_eq!(refused(GgufVocab { token_types: vec![1], ..gpt2_vocab() }).code, "tokenizer.bad");
    assert_eq!(refused(GgufVocab { bos: Some(9999), ..gpt2_vocab() }).code, "tokenizer.bad");
    assert_eq!(refused(GgufVocab { merges: vec!["x".into()], ..gpt2_vocab() }).code, "tokenizer.bad");
    assert_eq!(refused(GgufVocab { merges: vec!["zz zz".into()], ..gpt2_vocab() }).code, "tokenizer.bad");
    assert_eq!(refused(GgufVocab { scores: vec![0.0], ..llama_vocab() }).code, "tokenizer.bad");
    let nan = vec![f32::NAN; llama_vocab().tokens.len()];
    assert_eq!(refused(GgufVocab { scores: nan, ..llama_vocab() }).code, "tokenizer.bad");
}

#[test]
fn a_broken_tokenizer_file_is_refused() {
    let files = |json: TokenizerJson| TokenizerFiles {
        tokenizer_json: json,
        tokenizer_config: None,
        special_tokens_map: None,
        chat_template: None,
    };
    for json in [
        &b""[..],
        b"{}",
        b"[1]",
        b"\xFF",
        br#"{"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}}"#,
    ] {
        let fault = Tokenizer::from_files(files(TokenizerJson::Bytes(json.to_vec()))).unwrap_err();
        assert_eq!(fault.code, "tokenizer.bad", "{}", String::from_utf8_lossy(json));
    }
    let fault = Tokenizer::from_files(files(TokenizerJson::Path("no/tokenizer.json".into()))).unwrap_err();
    assert_eq!(fault.code, "file.missing");
}

#[test]
fn configurations_decide_on_special_tokens() {
    let with = |config: Value, map: Option<Value>| {
        Tokenizer::from_files(TokenizerFiles {
            tokenizer_json: TokenizerJson::Bytes(Tokenizer::bytes().unwrap().to_json()),
            tokenizer_config: Some(config),
            special_tokens_map: map,
            chat_template: None,
        })
        .unwrap()
    };
    // Nothing said: the post-processor begins texts, and a known name ends them.
    let silent = with(json!({}), None);
    assert_eq!((silent.bos(), silent.eos(), silent.pad()), (Some(256), Some(257), None));
    assert_eq!(with(json!({"add_bos_token": false}), None).bos(), None);
    assert_ne!(with(json!({"add_bos_token": false}), None).fingerprint(), silent.fingerprint());
    let objects =
        with(json!({"eos_token": {"content": "<pad>"}}), Some(json!({"pad_token": "<pad>", "eos_token": "</s>"})));
    assert_eq!((objects.eos(), objects.pad()), (Some(258), Some(258)));
    assert_eq!(objects.stop_ids(), [257, 258]);
    let named = json!({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]});
    assert_eq!(with(named, None).chat_template(), Some("D"));
}

#[test]
fn truncation_and_padding_of_the_file_are_not_ours() {
    let mut json: Value = serde_json::from_slice(&Tokenizer::bytes().unwrap().to_json()).unwrap();
    json["truncation"] = json!({"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0});
    json["padding"] = json!({"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 258, "pad_type_id": 0, "pad_token": "<pad>"});
    let tokenizer = Tokenizer::from_files(TokenizerFiles {
        tokenizer_json: TokenizerJson::Bytes(serde_json::to_vec(&json).unwrap()),
        tokenizer_config: None,
        special_tokens_map: None,
        chat_template: None,
    })
    .unwrap();
    assert_eq!(tokenizer.encode("abcdefgh", true).unwrap().len(), 8);
    assert_eq!(tokenizer.encode("a", true).unwrap().len(), 1);
    assert_eq!(tokenizer.bos(), Some(256));
}

#[test]
fn a_stream_gives_whole_characters() {
    let bytes = Tokenizer::bytes().unwrap();
    let mut stream = bytes.stream();
    let pieces: Vec<String> = "aé🙂".bytes().map(|byte| stream.push(byte.into()).unwrap()).collect();
    assert_eq!(pieces, ["a", "", "é", "", "", "", "🙂"]);
    assert_eq!(stream.finish().unwrap(), "");
    let mut cut = bytes.stream();
    assert_eq!(cut.push(0xF0).unwrap(), "");
    assert_eq!(cut.finish().unwrap(), "\u{FFFD}");
    // Bytes that never become a character do not hold back the text for ever.
    let mut broken = bytes.stream();
    let told: String = (0..20).map(|_| broken.push(0xFF).unwrap()).collect();
    assert!(told.chars().count() >= 16, "{told}");
}

#[test]
fn a_stream_keeps_spaces_between_words() {
    let tokenizer = Tokenizer::from_gguf(&llama_vocab()).unwrap();
    let ids = tokenizer.encode("ab ab é", true).unwrap();
    let mut stream = tokenizer.stream();
    let mut text: String = ids.iter().map(|id| stream.push(*id).unwrap()).collect();
    text.push_str(&stream.finish().unwrap());
    assert_eq!(text, "ab ab é");
}
