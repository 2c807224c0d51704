//! Token ids and rendered conversations against `tokenizers` and transformers.

use serde_json::Value;
use tunepipe::data::{ChatTemplate, Conversation, Message, Role, Tokenizer, TokenizerFiles, TokenizerJson};

use super::{json, path};

fn tokenizer(folder: &str, config: Option<Value>) -> Tokenizer {
    Tokenizer::from_files(TokenizerFiles {
        tokenizer_json: TokenizerJson::Path(path("tokenizer").join(folder).join("tokenizer.json")),
        tokenizer_config: config,
        special_tokens_map: None,
        chat_template: None,
    })
    .expect("the tokenizer reads")
}

#[test]
fn ids_and_texts_are_those_of_tokenizers() {
    let data = json("tokenizer/data.json");
    let expected = json("tokenizer/expected.json");
    let strings = data["strings"].as_array().expect("strings");
    for folder in ["byte-level", "byte-fallback"] {
        let tokenizer = tokenizer(folder, None);
        for (at, text) in strings.iter().enumerate() {
            let text = text.as_str().expect("a string");
            let ids = tokenizer.encode(text, true).expect("encodes");
            assert_eq!(serde_json::json!(ids), expected[folder]["ids"][at], "{folder}: {text:?}");
            let shown = tokenizer.show(&ids).expect("decodes");
            assert_eq!(shown, expected[folder]["decoded"][at].as_str().expect("a string"), "{folder}: {text:?}");
        }
    }
}

#[test]
fn conversations_are_rendered_as_transformers_renders_them() {
    let data = json("chat-template/data.json");
    let expected = json("chat-template/expected.json");
    let tokenizer = tokenizer("byte-level", Some(data["special_tokens"].clone()));
    let conversations: Vec<Conversation> = data["conversations"]
        .as_array()
        .expect("conversations")
        .iter()
        .map(|messages| {
            let messages = messages.as_array().expect("messages").iter().map(|message| {
                let role = match message["role"].as_str().expect("a role") {
                    "system" => Role::System,
                    "assistant" => Role::Assistant,
                    _ => Role::User,
                };
                Message::new(role, message["content"].as_str().expect("a text"))
            });
            Conversation { messages: messages.collect(), tools: None }
        })
        .collect();
    for name in ["chatml", "llama3", "zephyr", "branching"] {
        let text = std::fs::read_to_string(path(&format!("chat-template/{name}.jinja"))).expect("a template");
        let template = ChatTemplate::new(&text, &tokenizer).expect("compiles");
        for (key, prompt) in [("plain", false), ("generation_prompt", true)] {
            for (at, conversation) in conversations.iter().enumerate() {
                let rendered = template.render(conversation, prompt).expect("renders");
                assert_eq!(rendered, expected[name][key][at].as_str().expect("a text"), "{name}, {key}, {at}");
            }
        }
    }
}
