//! What a model is given to write on from.

use super::draft::{Draft, conversation_of};
use super::{ChatTemplate, Content, Conversation, Message, Role, Tokenizer};
use crate::text::{Fault, Result};

/// How a prompt becomes the text that a model sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptStyle {
    /// Through the chat template where there is one, else as it is.
    Auto,
    Raw,
    /// A user's turn, through the chat template.
    Chat,
    /// An instruction, written as rows of `format=alpaca` are.
    Alpaca,
}

/// The prompt of Stanford Alpaca, for models without a chat template; `input` may be empty.
pub fn alpaca_prompt(instruction: &str, input: &str) -> String {
    if input.is_empty() {
        return format!(
            "Below is an instruction that describes a task. Write a response that appropriately completes the \
             request.\n\n### Instruction:\n{instruction}\n\n### Response:\n"
        );
    }
    format!(
        "Below is an instruction that describes a task, paired with an input that provides further context. Write a \
         response that appropriately completes the request.\n\n### Instruction:\n{instruction}\n\n### Input:\n{input}\
         \n\n### Response:\n"
    )
}

/// Ids to generate from: begun as a training row of that style is begun, and ending where the answer starts.
///
/// # Errors
/// `data.no_template` for `Chat` without a template; `template.failed`; `tokenizer.failed`.
pub fn render_prompt(
    prompt: &str,
    style: PromptStyle,
    tokenizer: &Tokenizer,
    template: Option<&ChatTemplate>,
) -> Result<Vec<u32>> {
    let text = match (style, template) {
        (PromptStyle::Raw, _) | (PromptStyle::Auto, None) => prompt.to_owned(),
        (PromptStyle::Chat, None) => return Err(no_template()),
        (PromptStyle::Alpaca, None) => alpaca_prompt(prompt, ""),
        (PromptStyle::Alpaca, Some(template)) => {
            let content = Content::Alpaca {
                system: None,
                history: Vec::new(),
                instruction: prompt.to_owned(),
                input: String::new(),
                output: String::new(),
            };
            let mut conversation = conversation_of(&content).into_owned();
            conversation.messages.pop();
            template.render(&conversation, true)?
        }
        (PromptStyle::Auto | PromptStyle::Chat, Some(template)) => {
            let messages = vec![Message::new(Role::User, prompt)];
            template.render(&Conversation { messages, tools: None }, true)?
        }
    };
    let mut draft = Draft::default();
    draft.push(&text, false);
    let (ids, _, _) = draft.tokenize(tokenizer, true)?;
    Ok(ids)
}

pub(super) fn no_template() -> Fault {
    Fault::new("data.no_template", "this model has no chat template, so a conversation cannot be written for it")
        .help("say which on `load model`: `template=chatml`, `template=llama3` or `template=@\"my-template.jinja\"`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_has_its_own_heading() {
        assert!(alpaca_prompt("Add.", "1 2").contains("### Input:\n1 2\n\n### Response:\n"));
        assert!(!alpaca_prompt("Add.", "").contains("### Input:"));
    }

    #[test]
    fn prompts_begin_as_rows_do() {
        let bytes = Tokenizer::bytes().unwrap();
        assert_eq!(render_prompt("ab", PromptStyle::Raw, &bytes, None).unwrap(), [256, 97, 98]);
        assert_eq!(render_prompt("ab", PromptStyle::Auto, &bytes, None).unwrap(), [256, 97, 98]);
        let template = ChatTemplate::choose(Some("chatml"), &bytes).unwrap();
        let ids = render_prompt("ab", PromptStyle::Auto, &bytes, template.as_ref()).unwrap();
        assert_eq!(bytes.show(&ids[1..]).unwrap(), "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n");
        let fault = render_prompt("ab", PromptStyle::Chat, &bytes, None).unwrap_err();
        assert_eq!(fault.code, "data.no_template");
    }
}
