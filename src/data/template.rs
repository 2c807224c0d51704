//! Chat templates, in the environment that transformers gives them.

use std::io::{self, Write};

use minijinja::value::{Kwargs, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, context};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

use super::{Conversation, Message, Tokenizer};
use crate::text::{Fault, Result};

/// Steps that one rendering may take. A conversation of a thousand turns takes some hundred thousand; a template that
/// loops for ever ends here.
const FUEL: u64 = 20_000_000;
/// Bytes that one rendering may give.
const LARGEST: usize = 256 << 20;
const NAME: &str = "chat template";
const CHOICES: &str = "`template=chatml`, `template=llama3`, or `template=@\"my-template.jinja\"`";

const CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
const LLAMA3: &str = "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n\
    {{ message.content | trim }}<|eot_id|>{% endfor %}\
    {% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}";

/// A compiled chat template.
pub struct ChatTemplate {
    env: Environment<'static>,
    bos: String,
    eos: String,
    /// The template's text speaks of tools.
    tools: bool,
    /// And of calls of them.
    calls: bool,
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ChatTemplate")
    }
}

impl ChatTemplate {
    /// The template that ships under a name: `chatml`, `llama3`.
    pub fn builtin(name: &str) -> Option<&'static str> {
        match name {
            "chatml" => Some(CHATML),
            "llama3" => Some(LLAMA3),
            _ => None,
        }
    }

    /// Special tokens as a template writes them (`<|im_start|>`) that are no single token of this tokenizer: spelt out in
    /// pieces, they mark no turn for the model.
    pub fn foreign_tokens(source: &str, tokenizer: &Tokenizer) -> Vec<String> {
        let mut foreign: Vec<String> = Vec::new();
        for (at, _) in source.match_indices("<|") {
            let Some(end) = source[at + 2..].find("|>").map(|end| at + end + 4) else { break };
            let token = &source[at..end];
            let word = token[2..token.len() - 2].bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            let single = tokenizer.encode(token, true).is_ok_and(|ids| ids.len() == 1);
            if word && !single && !foreign.iter().any(|known| known == token) {
                foreign.push(token.to_owned());
            }
        }
        foreign
    }

    /// The template to use: `given` (a built-in name, or a template's text), else the tokenizer's own, else none.
    ///
    /// # Errors
    /// `template.unknown` for a text without a single tag, which is rather a name misspelt; `template.syntax`.
    pub fn choose(given: Option<&str>, tokenizer: &Tokenizer) -> Result<Option<Self>> {
        if let Some(name) = given.filter(|given| Self::builtin(given).is_none() && !given.contains('{')) {
            let name: String = name.chars().take(40).collect();
            let fault = Fault::new("template.unknown", format!("there is no chat template called `{name}`"));
            return Err(fault.help(CHOICES));
        }
        let source = given.map(|given| Self::builtin(given).unwrap_or(given)).or(tokenizer.chat_template());
        source.map(|source| Self::new(source, tokenizer)).transpose()
    }

    /// Compiles a template's text.
    ///
    /// # Errors
    /// `template.syntax`, with the template's line.
    pub fn new(source: &str, tokenizer: &Tokenizer) -> Result<Self> {
        let mut env = Environment::new();
        env.set_trim_blocks(true);
        env.set_lstrip_blocks(true);
        env.set_auto_escape_callback(|_| AutoEscape::None);
        env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        env.set_fuel(Some(FUEL));
        env.set_formatter(|out, state, value| match value.kind() {
            // As Python prints them.
            minijinja::value::ValueKind::None => out.write_str("None").map_err(Error::from),
            minijinja::value::ValueKind::Bool => {
                out.write_str(if value.is_true() { "True" } else { "False" }).map_err(Error::from)
            }
            _ => minijinja::escape_formatter(out, state, value),
        });
        env.add_filter("tojson", tojson);
        env.add_function("raise_exception", |message: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        env.add_function("strftime_now", |format: String| strftime(&format));
        env.add_template_owned(NAME, without_generation_tags(source)).map_err(|e| {
            let fault = Fault::new("template.syntax", format!("the chat template cannot be read: {}", words(&e)));
            fault.help(CHOICES)
        })?;
        let names = |word: &str| source.contains(word);
        Ok(ChatTemplate {
            env,
            bos: tokenizer.bos_text().to_owned(),
            eos: tokenizer.eos_text().to_owned(),
            tools: names("tools"),
            calls: names("tool_calls"),
        })
    }

    /// Whether a conversation has tools or tool calls of which this template knows nothing.
    pub fn leaves_tools(&self, conversation: &Conversation) -> bool {
        let called = |message: &Message| message.rest.as_ref().is_some_and(|rest| rest.contains_key("tool_calls"));
        (conversation.tools.is_some() && !self.tools) || (!self.calls && conversation.messages.iter().any(called))
    }

    /// A conversation as text; with `generation_prompt` followed by what makes the assistant speak.
    ///
    /// # Errors
    /// `template.failed`, with the template's line: it raised an exception, or asked for too much.
    pub fn render(&self, conversation: &Conversation, generation_prompt: bool) -> Result<String> {
        self.render_messages(&conversation.messages, conversation.tools.as_deref(), generation_prompt)
    }

    pub(super) fn render_messages(
        &self,
        messages: &[Message],
        tools: Option<&serde_json::Value>,
        generation_prompt: bool,
    ) -> Result<String> {
        let messages: Vec<Value> = messages.iter().map(message_value).collect();
        let context = context! {
            messages,
            bos_token => self.bos,
            eos_token => self.eos,
            add_generation_prompt => generation_prompt,
            tools => tools.map_or(Value::from(()), Value::from_serialize),
            documents => Value::from(()),
        };
        let mut out = Bounded(Vec::new());
        let template = self.env.get_template(NAME).map_err(|e| failed(&e))?;
        template.render_captured_to(context, &mut out).map_err(|e| failed(&e))?;
        String::from_utf8(out.0).map_err(|_| Fault::new("template.failed", "the chat template gave no valid text"))
    }
}

fn message_value(message: &Message) -> Value {
    let role = ("role".to_owned(), Value::from(message.role.name()));
    let content = ("content".to_owned(), Value::from(message.content.as_str()));
    let rest = message.rest.iter().flat_map(|rest| rest.iter());
    [role, content].into_iter().chain(rest.map(|(key, v)| (key.clone(), Value::from_serialize(v)))).collect()
}

/// A buffer that refuses to grow without end.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len().saturating_add(bytes.len()) > LARGEST {
            return Err(io::Error::other("it gives more than 256 MiB of text"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn failed(error: &Error) -> Fault {
    Fault::new("template.failed", format!("the chat template fails: {}", words(error)))
}

/// An error in words, with the line of the template.
fn words(error: &Error) -> String {
    let mut text = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => "it takes more steps than any conversation needs".to_owned(),
        (kind, Some(detail)) if kind != ErrorKind::InvalidOperation => format!("{kind}: {detail}"),
        (_, Some(detail)) => detail.to_owned(),
        (kind, None) => kind.to_string(),
    };
    if let Some(source) = std::error::Error::source(error) {
        text.push_str(&format!(": {source}"));
    }
    match error.line() {
        Some(line) => format!("{text} (line {line} of the template)"),
        None => text,
    }
}

/// `{% generation %}` marks answers for transformers' own masks. Masks are made of rendered text here, so the tags become
/// a condition that always holds, with their whitespace control.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let Some(end) = tag.find("%}") else { break };
        let inner = &tag[2..end];
        let bare = inner.trim_start_matches(['-', '+']);
        let open = &inner[..inner.len() - bare.len()];
        let word = bare.trim_end_matches(['-', '+']);
        let close = &bare[word.len()..];
        match word.trim() {
            "generation" => out.push_str(&format!("{{%{open} if true {close}%}}")),
            "endgeneration" => out.push_str(&format!("{{%{open} endif {close}%}}")),
            _ => out.push_str(&tag[..end + 2]),
        }
        rest = &tag[end + 2..];
    }
    out.push_str(rest);
    out
}

/// transformers' `tojson`: Python's `json.dumps` without ASCII escapes.
fn tojson(value: Value, indent: Option<usize>, options: Kwargs) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<usize>>("indent")?,
    };
    // Python's other options leave valid JSON as it is.
    let _ = options.get::<Option<Value>>("ensure_ascii")?;
    let _ = options.get::<Option<Value>>("separators")?;
    let _ = options.get::<Option<Value>>("sort_keys")?;
    options.assert_all_used()?;
    let mut out = Vec::new();
    let written = match indent {
        Some(indent) => {
            let spaces = " ".repeat(indent.min(64));
            let mut to =
                serde_json::Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(spaces.as_bytes()));
            value.serialize(&mut to)
        }
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Spaced)),
    };
    written.map_err(|e| Error::new(ErrorKind::InvalidOperation, "a value cannot be written as JSON").with_source(e))?;
    Ok(Value::from(String::from_utf8_lossy(&out).into_owned()))
}

/// `{"a": 1, "b": 2}`, as Python spaces it.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

/// Templates that write today's date would make other rows tomorrow, and a resumed run another run: here it is always
/// 26 July 2024, a Friday, the date that Llama's own templates fall back to.
fn strftime(format: &str) -> String {
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('-') => out.push_str(date_part(chars.next()).trim_start_matches('0')),
            part => out.push_str(date_part(part)),
        }
    }
    out
}

fn date_part(letter: Option<char>) -> &'static str {
    match letter {
        Some('d' | 'e') => "26",
        Some('b' | 'h') => "Jul",
        Some('B') => "July",
        Some('m') => "07",
        Some('Y') => "2024",
        Some('y') => "24",
        Some('a') => "Fri",
        Some('A') => "Friday",
        Some('j') => "208",
        Some('F') => "2024-07-26",
        Some('H' | 'M' | 'S' | 'I') => "00",
        Some('%') => "%",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_another_vocabulary_are_named_once() {
        let bytes = Tokenizer::bytes().expect("a tokenizer");
        assert_eq!(ChatTemplate::foreign_tokens(CHATML, &bytes), ["<|im_start|>", "<|im_end|>"]);
        assert!(ChatTemplate::foreign_tokens("<|> <|| <|two words|> {{ x }} <|", &bytes).is_empty());
    }
}
