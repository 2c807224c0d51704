//! A JSON object as a row of the format that was asked for.

use serde_json::{Map, Value};

use super::read::json::kind_of;
use super::{Content, Conversation, Format, Message, Role, Settings};

/// Why an object is no such row.
#[derive(Debug, Default)]
pub(super) struct Wrong {
    pub message: String,
    /// The key that it is about.
    pub field: Option<String>,
    pub note: Option<String>,
    pub help: Option<String>,
}

type Object = Map<String, Value>;
type Parsed<T> = std::result::Result<T, Wrong>;

/// Reads an object as a row.
pub(super) fn content(mut object: Object, settings: &Settings) -> Parsed<Content> {
    match settings.format {
        Format::Text => Ok(Content::Text(required(&mut object, &settings.text, settings)?)),
        Format::Completion => Ok(Content::Completion {
            prompt: required(&mut object, &settings.prompt, settings)?,
            completion: required(&mut object, &settings.completion, settings)?,
        }),
        Format::Alpaca => alpaca(object, settings),
        Format::Chat => chat(object, settings),
        Format::Tokens => tokens(object, settings),
    }
}

/// A string; none where the key is missing or null.
fn optional(object: &mut Object, key: &str) -> Parsed<Option<String>> {
    match object.get_mut(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(std::mem::take(text))),
        Some(other) => Err(Wrong {
            message: format!("`{key}` must be a string, and is {}", kind_of(other)),
            field: Some(key.to_owned()),
            ..Wrong::default()
        }),
    }
}

fn required(object: &mut Object, key: &str, settings: &Settings) -> Parsed<String> {
    match optional(object, key)? {
        Some(text) => Ok(text),
        None => Err(missing(object, key, settings)),
    }
}

/// A key that the format needs and the row lacks; the row's own keys tell what it may be instead.
fn missing(object: &Object, key: &str, settings: &Settings) -> Wrong {
    let found = object.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
    let note = if found.is_empty() { "the row is empty".to_owned() } else { format!("the row has {found}") };
    let null = object.contains_key(key);
    let message = match null {
        true => format!("`{key}` is null; `format={}` needs a value", settings.format.name()),
        false => format!("the row has no `{key}`, which `format={}` needs", settings.format.name()),
    };
    let field = null.then(|| key.to_owned());
    Wrong { message, field, note: Some(note), help: suggestion(object, settings) }
}

/// What to type so that a row with these keys can be read.
fn suggestion(object: &Object, settings: &Settings) -> Option<String> {
    let has = |key: &str| object.contains_key(key);
    let likely = if has("messages") || has("conversations") {
        Some(Format::Chat)
    } else if has("instruction") && has("output") {
        Some(Format::Alpaca)
    } else if has("input_ids") {
        Some(Format::Tokens)
    } else if has("prompt") && has("completion") {
        Some(Format::Completion)
    } else if has("text") {
        Some(Format::Text)
    } else {
        None
    };
    if let Some(format) = likely.filter(|format| *format != settings.format) {
        return Some(format!("`format={}`", format.name()));
    }
    let strings: Vec<&String> = object.iter().filter(|(_, v)| v.is_string()).map(|(key, _)| key).collect();
    match strings[..] {
        [only] => Some(format!("`format=text text=\"{only}\"`")),
        [prompt, completion] => Some(format!("`format=completion prompt=\"{prompt}\" completion=\"{completion}\"`")),
        _ => None,
    }
}

fn alpaca(mut object: Object, settings: &Settings) -> Parsed<Content> {
    let instruction = optional(&mut object, "instruction")?;
    let input = optional(&mut object, "input")?;
    if instruction.is_none() && input.is_none() {
        return Err(missing(&object, "instruction", settings));
    }
    let output = required(&mut object, "output", settings)?;
    let system = optional(&mut object, "system")?.filter(|system| !system.is_empty());
    let history = match object.get_mut("history") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(pairs)) => pairs.iter_mut().map(pair).collect::<Parsed<Vec<_>>>()?,
        Some(other) => return Err(bad_history(&format!("and is {}", kind_of(other)))),
    };
    Ok(Content::Alpaca {
        system,
        history,
        instruction: instruction.unwrap_or_default(),
        input: input.unwrap_or_default(),
        output,
    })
}

fn pair(value: &mut Value) -> Parsed<(String, String)> {
    match value.as_array_mut().map(Vec::as_mut_slice) {
        Some([Value::String(asked), Value::String(answered)]) => Ok((std::mem::take(asked), std::mem::take(answered))),
        _ => Err(bad_history("and has an entry that is no such pair")),
    }
}

fn bad_history(found: &str) -> Wrong {
    Wrong {
        message: format!("`history` must be a list of pairs, each an instruction and its answer, {found}"),
        field: Some("history".into()),
        ..Wrong::default()
    }
}

fn chat(mut object: Object, settings: &Settings) -> Parsed<Content> {
    let key = if object.contains_key("messages") { "messages" } else { "conversations" };
    let turns = match object.get_mut(key) {
        None | Some(Value::Null) => return Err(missing(&object, "messages", settings)),
        Some(Value::Array(turns)) => std::mem::take(turns),
        Some(other) => {
            let message = format!("`{key}` must be a list of messages, and is {}", kind_of(other));
            return Err(Wrong { message, field: Some(key.into()), ..Wrong::default() });
        }
    };
    let mut messages = Vec::with_capacity(turns.len());
    for (at, turn) in turns.into_iter().enumerate() {
        let place = |mut wrong: Wrong| {
            wrong.message = format!("message {} of `{key}`: {}", at + 1, wrong.message);
            wrong.field = Some(key.to_owned());
            wrong
        };
        messages.push(message(turn).map_err(place)?);
    }
    let system = optional(&mut object, "system")?.filter(|system| !system.is_empty());
    if let Some(system) = system.filter(|_| messages.first().is_none_or(|first| first.role != Role::System)) {
        messages.insert(0, Message::new(Role::System, system));
    }
    let tools = match object.remove("tools") {
        Some(Value::String(text)) => serde_json::from_str::<Value>(&text).ok(),
        other => other,
    };
    let tools = tools.filter(|tools| tools.as_array().is_some_and(|list| !list.is_empty())).map(Box::new);
    Ok(Content::Chat(Conversation { messages, tools }))
}

fn message(turn: Value) -> Parsed<Message> {
    let wrong = |message: String| Wrong { message, ..Wrong::default() };
    let Value::Object(mut turn) = turn else {
        return Err(wrong(format!("it must be an object with `role` and `content`, and is {}", kind_of(&turn))));
    };
    let role = match turn.shift_remove("role").or_else(|| turn.shift_remove("from")) {
        Some(Value::String(name)) => role(&name)?,
        Some(other) => return Err(wrong(format!("its role must be a string, and is {}", kind_of(&other)))),
        None => return Err(wrong("it has no `role` (or, in ShareGPT's form, no `from`)".into())),
    };
    let calls = turn.contains_key("tool_calls") || turn.contains_key("function_call");
    let content = match turn.shift_remove("content").or_else(|| turn.shift_remove("value")) {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => parts.iter().map(part).collect::<Parsed<Vec<_>>>()?.concat(),
        None | Some(Value::Null) if calls => String::new(),
        None => return Err(wrong("it has no `content` (or, in ShareGPT's form, no `value`)".into())),
        Some(other) => return Err(wrong(format!("its content must be a string, and is {}", kind_of(&other)))),
    };
    let rest = (!turn.is_empty()).then(|| Box::new(turn));
    Ok(Message { role, content, rest })
}

/// The text of one part of a content that is a list.
fn part(part: &Value) -> Parsed<&str> {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
    let text = part.as_str().or_else(|| part.get("text").or_else(|| part.get("value")).and_then(Value::as_str));
    match text {
        Some(text) if kind == "text" => Ok(text),
        _ => Err(Wrong {
            message: format!("its content has a part of the type `{kind}`, and only text can be read"),
            ..Wrong::default()
        }),
    }
}

fn role(name: &str) -> Parsed<Role> {
    match name {
        "system" | "developer" => Ok(Role::System),
        "user" | "human" => Ok(Role::User),
        "assistant" | "gpt" | "chatgpt" | "bing" | "bard" | "model" | "function_call" => Ok(Role::Assistant),
        "tool" | "observation" | "function" | "function_response" | "tool_response" | "ipython" => Ok(Role::Tool),
        other => Err(Wrong {
            message: format!("nobody speaks as `{other}`"),
            note: Some(
                "known: system, user, assistant, tool; in ShareGPT's form human, gpt, function_call, observation"
                    .into(),
            ),
            ..Wrong::default()
        }),
    }
}

fn tokens(object: Object, settings: &Settings) -> Parsed<Content> {
    let list = |key: &str| match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(about(key, format!("`{key}` must be a list of numbers, and is {}", kind_of(other)))),
    };
    let Some(ids) = list("input_ids")? else { return Err(missing(&object, "input_ids", settings)) };
    let id = |(at, value): (usize, &Value)| {
        value
            .as_u64()
            .and_then(|id| u32::try_from(id).ok())
            .filter(|id| *id < u32::MAX)
            .ok_or_else(|| about("input_ids", format!("entry {} of `input_ids` is no token id: {value}", at + 1)))
    };
    let ids = ids.iter().enumerate().map(id).collect::<Parsed<Vec<u32>>>()?;
    if list("attention_mask")?.is_some_and(|mask| mask.iter().any(|on| on.as_u64() == Some(0))) {
        let mut wrong = about("attention_mask", "`input_ids` is padded: `attention_mask` has zeros".into());
        wrong.help = Some("store the rows without padding".into());
        return Err(wrong);
    }
    let Some(labels) = list("labels")? else { return Ok(Content::Tokens { ids, counted: None }) };
    if labels.len() != ids.len() {
        let message = format!("{} labels for {} ids: there must be one a token", labels.len(), ids.len());
        return Err(about("labels", message));
    }
    let counts = |(at, (label, id)): (usize, (&Value, &u32))| match label.as_i64() {
        Some(-100) => Ok(false),
        Some(label) if label == i64::from(*id) => Ok(true),
        _ => Err(about(
            "labels",
            format!("entry {} of `labels` is {label}: it must be -100 or the id {id} itself", at + 1),
        )),
    };
    let counted = labels.iter().zip(&ids).enumerate().map(counts).collect::<Parsed<Vec<bool>>>()?;
    Ok(Content::Tokens { ids, counted: Some(counted) })
}

fn about(key: &str, message: String) -> Wrong {
    Wrong { message, field: Some(key.to_owned()), ..Wrong::default() }
}
