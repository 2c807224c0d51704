//! What the codes of diagnostics mean: pages in `stdlib/codes/*.md`, each with an example that gives the code and one
//! that does not, embedded in the binary. A test holds the pages to the sources and runs every example.

use std::sync::OnceLock;

const FILES: [&str; 6] = [
    include_str!("../../stdlib/codes/language.md"),
    include_str!("../../stdlib/codes/recipes.md"),
    include_str!("../../stdlib/codes/planning.md"),
    include_str!("../../stdlib/codes/files.md"),
    include_str!("../../stdlib/codes/running.md"),
    include_str!("../../stdlib/codes/defects.md"),
];

/// The page of a code, or of several that mean the same to a person.
#[derive(Debug, Clone, Default)]
pub struct CodePage {
    pub codes: Vec<String>,
    /// One line.
    pub title: String,
    /// Why, and what to do; paragraphs of Markdown.
    pub doc: String,
    pub wrong: Option<Example>,
    pub right: Option<Example>,
    /// What the program prints, where only a damaged file brings the code about.
    pub shown: Option<String>,
}

/// A pipeline, with what it is given. A page may leave out lines that are not its matter; [`Example::whole`] adds them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Example {
    pub text: String,
    /// `name=value`, as on the command line.
    pub params: Vec<(String, String)>,
    /// Files beside it: name and text.
    pub files: Vec<(String, String)>,
}

impl Example {
    /// The pipeline as a file: a text that neither says its edition nor loads anything stands behind lines that do,
    /// and what it trains and does not save is saved.
    pub fn whole(&self) -> String {
        let starts = |words: &[&str]| self.text.lines().any(|line| words.iter().any(|word| line.starts_with(word)));
        let mut whole = String::new();
        if !starts(&["tunepipe ", "load model "]) {
            whole.push_str("tunepipe 1\nload model \"model\"\nload data \"rows.jsonl\" format=completion\n");
        }
        whole.push_str(&self.text);
        if starts(&["train lora"]) && !starts(&["save "]) {
            whole.push_str("save adapter \"out/adapter\"\n");
        }
        whole
    }
}

/// Every page, in the order of the files.
pub fn pages() -> &'static [CodePage] {
    static PAGES: OnceLock<Vec<CodePage>> = OnceLock::new();
    PAGES.get_or_init(|| FILES.iter().flat_map(|text| read(text)).collect())
}

/// Every code.
pub fn all() -> impl Iterator<Item = &'static str> {
    pages().iter().flat_map(|page| page.codes.iter().map(String::as_str))
}

/// The page of a code.
pub fn find(code: &str) -> Option<&'static CodePage> {
    pages().iter().find(|page| page.codes.iter().any(|known| known == code))
}

/// Headings are codes; the line below is the title; fences are examples; the rest are words.
fn read(text: &str) -> Vec<CodePage> {
    let mut pages: Vec<CodePage> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(codes) = line.strip_prefix("## ") {
            let codes = codes.split(',').map(|code| code.trim().to_owned()).collect();
            let title = lines.next().unwrap_or("").to_owned();
            pages.push(CodePage { codes, title, ..CodePage::default() });
            continue;
        }
        let Some(page) = pages.last_mut() else { continue };
        if let Some(info) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            page.example(info, &(body.join("\n") + "\n"));
        } else {
            page.doc.push_str(line);
            page.doc.push('\n');
        }
    }
    for page in &mut pages {
        page.doc = page.doc.trim().to_owned();
    }
    pages
}

impl CodePage {
    /// `shown`: what is printed; `wrong`: the pipeline; `wrong $`: its params; `wrong rows.jsonl`: a file beside it.
    fn example(&mut self, info: &str, body: &str) {
        if info == "shown" {
            self.shown = Some(body.to_owned());
            return;
        }
        let (side, what) = info.split_once(' ').unwrap_or((info, ""));
        let example = if side == "right" { &mut self.right } else { &mut self.wrong };
        let example = example.get_or_insert_default();
        match what {
            "" => body.clone_into(&mut example.text),
            "$" => {
                let pairs = body.split_whitespace().filter_map(|word| word.split_once('='));
                example.params.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
            name => example.files.push((name.to_owned(), body.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_it_is_written() {
        let text = "# Head\n\n## a.b, a.c\nTitle.\n\nWhy.\n\n```wrong $\nx=1 y=\n```\n```wrong f.txt\nrow\n```\n```wrong\neval\n```\n```right\ntunepipe 1\n```\n## d\nE.\n";
        let pages = read(text);
        assert_eq!(pages.len(), 2);
        assert_eq!(
            (&pages[0].codes[..], &*pages[0].title, &*pages[0].doc),
            (&["a.b".into(), "a.c".into()][..], "Title.", "Why.")
        );
        let wrong = pages[0].wrong.as_ref().expect("given");
        assert_eq!(wrong.params, [("x".to_owned(), "1".to_owned()), ("y".to_owned(), String::new())]);
        assert_eq!(wrong.files, [("f.txt".to_owned(), "row\n".to_owned())]);
        assert!(wrong.whole().starts_with("tunepipe 1\nload model") && wrong.whole().ends_with("eval\n"));
        assert_eq!(pages[0].right.as_ref().map(Example::whole).as_deref(), Some("tunepipe 1\n"));
        assert!(pages[1].wrong.is_none() && pages[1].title == "E.");
    }

    #[test]
    fn every_code_has_one_page_with_words() {
        let mut seen = std::collections::BTreeSet::new();
        for page in pages() {
            assert!(page.title.ends_with('.') && page.title.chars().count() <= 100, "{:?}: {}", page.codes, page.title);
            assert_eq!(page.wrong.is_some(), page.right.is_some(), "{:?}", page.codes);
            assert!(page.wrong.is_some() || !page.doc.is_empty(), "{:?} says nothing but its title", page.codes);
            for code in &page.codes {
                assert!(seen.insert(code.clone()), "{code} has two pages");
            }
        }
        assert!(seen.len() > 150);
    }
}
