//! The library's own tokenizer out of a `tokenizer.json`, however damaged.

use std::panic;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::bad;
use crate::text::Result;

/// The library's tokenizer of a `tokenizer.json`. It panics on some damaged parts; that is caught here and told as any
/// other damage.
pub(super) fn read(json: &[u8]) -> Result<tokenizers::Tokenizer> {
    if let Err(e) = serde_json::from_slice::<serde::de::IgnoredAny>(json) {
        return Err(bad(&format!("it is not JSON: {e}")));
    }
    let quiet = Silence::new();
    let made = panic::catch_unwind(|| tokenizers::Tokenizer::from_bytes(json));
    drop(quiet);
    match made {
        Ok(Ok(core)) => Ok(core),
        // serde's words about enums say nothing to a person.
        Ok(Err(e)) if e.to_string().contains("untagged enum") => {
            let words = e.to_string();
            let part = words.split("untagged enum ").nth(1).and_then(|rest| rest.split_whitespace().next());
            let part = part.map_or("a part", |name| name.trim_end_matches("Untagged").trim_end_matches("Wrapper"));
            Err(bad(&format!("its {} is of a kind that is not known", spaced(part))))
        }
        Ok(Err(e)) => Err(bad(&e.to_string())),
        Err(_) => Err(bad("one of its parts is damaged")),
    }
}

/// `PreTokenizer` as `pre tokenizer`.
fn spaced(name: &str) -> String {
    let mut words = String::new();
    for (at, c) in name.chars().enumerate() {
        if c.is_uppercase() && at > 0 {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

type Hook = Box<dyn Fn(&panic::PanicHookInfo<'_>) + Sync + Send + 'static>;

/// While it lives, a panic says nothing on stderr. One at a time: the hook is the whole process's.
struct Silence {
    hook: Option<Hook>,
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Silence {
    fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let hook = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        Silence { hook: Some(hook), _alone: alone }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        if let Some(hook) = self.hook.take() {
            panic::set_hook(hook);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_told_in_words() {
        let fault = |json: &str| read(json.as_bytes()).map(|_| ()).expect_err("a fault").message;
        assert!(fault("{").contains("not JSON"), "{}", fault("{"));
        let model = r#""model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}"#;
        let charsmap =
            format!(r#"{{"version":"1.0",{model},"normalizer":{{"type":"Precompiled","precompiled_charsmap":"xx"}}}}"#);
        assert!(!fault(&charsmap).contains("panicked"));
        let strange = r#"{"version":"1.0","model":{"type":"Fancy"}}"#;
        assert!(!fault(strange).contains("untagged"), "{}", fault(strange));
        let splitter = format!(r#"{{"version":"1.0",{model},"pre_tokenizer":{{"type":"Fancy"}}}}"#);
        assert!(fault(&splitter).contains("pre tokenizer"), "{}", fault(&splitter));
    }
}
