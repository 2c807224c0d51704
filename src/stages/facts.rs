//! What lowering finds out by looking: opened models, tokenizers, tokenised data. Looked at once, however many targets
//! are planned, and handed on to the run.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Count, RunHome, Watch};
use crate::data::{self, Draw, Heard, Settings, Source, Take, TokenSet, Tokenizer, TokenizerFiles, TokenizerJson};
use crate::memory::{PerPlace, Place, meter};
use crate::model::Shape;
use crate::store::{Cache, ModelSource, TokenizerSource};
use crate::text::{Fault, Result};

/// A model's files, opened: headers and config only.
pub struct ModelFiles {
    pub source: Arc<ModelSource>,
    pub shape: Arc<Shape>,
    /// None where the folder has no tokenizer that can be read; the words say what was found.
    pub tokenizer: Result<Arc<Tokenizer>, String>,
}

/// A data set as one model's tokenizer sees it, split into rows to train on and rows held out.
pub struct Encoded {
    pub tokens: TokenSet,
    pub train: Vec<u32>,
    pub held: Vec<u32>,
    /// How much of which of the rows to train on an epoch has.
    pub draws: Vec<Draw>,
    /// The most that was in use while they were read and tokenised, all that was there before included.
    pub measured: PerPlace,
}

/// What decides a tokenised data set within one process: the statement's settings, the tokenizer, the template.
type EncodedKey = (usize, usize, Option<String>);

/// What is known of a data set once it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// Enough to plan by.
    Lengths,
    /// Enough to run.
    Tokens,
}

/// Everything looked at so far.
pub struct Facts {
    watch: RefCell<Box<dyn Watch>>,
    /// Where token sets are kept between commands.
    cache: Option<Cache>,
    hold: Hold,
    models: RefCell<HashMap<PathBuf, Result<Arc<ModelFiles>>>>,
    encoded: RefCell<HashMap<EncodedKey, Result<Arc<Encoded>>>>,
    /// Sets of several, by the addresses of those they are mixed of.
    mixed: RefCell<HashMap<Vec<usize>, Arc<Encoded>>>,
    /// Settings whose address is a key above: kept alive so that no other takes the address.
    pinned: RefCell<Vec<(Arc<Settings>, Arc<Tokenizer>)>>,
    settings: RefCell<Vec<Arc<Settings>>>,
    tokenizers: RefCell<HashMap<PathBuf, Result<Arc<Tokenizer>>>>,
    bytes: RefCell<Option<Result<Arc<Tokenizer>>>>,
    run_home: RefCell<Option<RunHome>>,
}

impl Facts {
    /// For planning: of data sets only lengths are held. Nothing is kept between commands.
    pub fn new(watch: Box<dyn Watch>) -> Self {
        Facts {
            watch: RefCell::new(watch),
            cache: None,
            hold: Hold::Lengths,
            models: RefCell::default(),
            encoded: RefCell::default(),
            mixed: RefCell::default(),
            pinned: RefCell::default(),
            settings: RefCell::default(),
            tokenizers: RefCell::default(),
            bytes: RefCell::default(),
            run_home: RefCell::default(),
        }
    }

    /// Where the pipeline that is lowered next will run; unless this is said, outputs are not held to it.
    pub fn runs_at(&self, home: Option<RunHome>) {
        self.run_home.replace(home);
    }

    pub(super) fn run_home(&self) -> Option<RunHome> {
        self.run_home.borrow().clone()
    }

    /// The same, with token sets kept in a cache.
    pub fn cached(self, cache: Option<Cache>) -> Self {
        Facts { cache, ..self }
    }

    /// The same for what will be run: tokens are held.
    pub fn to_run(self) -> Self {
        Facts { hold: Hold::Tokens, ..self }
    }

    /// Ends whatever progress is being shown.
    pub fn quiet_down(&self) {
        self.watch.borrow_mut().finish();
    }

    /// Opens a model and reads its config and headers.
    pub fn model(&self, path: &Path) -> Result<Arc<ModelFiles>> {
        if let Some(found) = self.models.borrow().get(path) {
            return found.clone();
        }
        let opened = open_model(path).map(Arc::new);
        self.models.borrow_mut().insert(path.to_owned(), opened.clone());
        opened
    }

    /// A tokenizer named apart from its model: a `tokenizer.json` or a folder that holds one.
    pub fn tokenizer(&self, path: &Path) -> Result<Arc<Tokenizer>> {
        if let Some(found) = self.tokenizers.borrow().get(path) {
            return found.clone();
        }
        let json = if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
        let read = Tokenizer::from_files(TokenizerFiles {
            tokenizer_json: TokenizerJson::Path(json),
            tokenizer_config: None,
            special_tokens_map: None,
            chat_template: None,
        })
        .map(Arc::new);
        self.tokenizers.borrow_mut().insert(path.to_owned(), read.clone());
        read
    }

    /// The standard library's tokenizer: one token a byte.
    pub fn byte_tokenizer(&self) -> Result<Arc<Tokenizer>> {
        if let Some(found) = &*self.bytes.borrow() {
            return found.clone();
        }
        let made = Tokenizer::bytes().map(Arc::new);
        *self.bytes.borrow_mut() = Some(made.clone());
        made
    }

    /// One copy of equal settings, so that targets share what was tokenised by them.
    pub fn settings(&self, settings: Settings) -> Arc<Settings> {
        let mut known = self.settings.borrow_mut();
        if let Some(same) = known.iter().find(|other| ***other == settings) {
            return same.clone();
        }
        let settings = Arc::new(settings);
        known.push(settings.clone());
        settings
    }

    /// Reads, tokenises and splits a data set for one tokenizer and template; planning gets lengths, a run the tokens.
    pub fn encode(
        &self,
        settings: &Arc<Settings>,
        tokenizer: &Arc<Tokenizer>,
        template: Option<&str>,
    ) -> Result<Arc<Encoded>> {
        self.encode_to(self.hold, settings, tokenizer, template)
    }

    /// As [`encode`](Self::encode), for someone who looks at the tokens themselves.
    pub fn encode_whole(
        &self,
        settings: &Arc<Settings>,
        tokenizer: &Arc<Tokenizer>,
        template: Option<&str>,
    ) -> Result<Arc<Encoded>> {
        self.encode_to(Hold::Tokens, settings, tokenizer, template)
    }

    fn encode_to(
        &self,
        hold: Hold,
        settings: &Arc<Settings>,
        tokenizer: &Arc<Tokenizer>,
        template: Option<&str>,
    ) -> Result<Arc<Encoded>> {
        let key = (Arc::as_ptr(settings) as usize, Arc::as_ptr(tokenizer) as usize, template.map(str::to_owned));
        let enough = |found: &Encoded| hold == Hold::Lengths || found.tokens.holds_tokens();
        if let Some(found) = self.encoded.borrow().get(&key)
            && found.as_ref().map_or(true, |found| enough(found))
        {
            return found.clone();
        }
        let made = self.encode_now(hold, settings, tokenizer, template).map(Arc::new);
        self.pinned.borrow_mut().push((settings.clone(), tokenizer.clone()));
        self.encoded.borrow_mut().insert(key, made.clone());
        made
    }

    fn encode_now(
        &self,
        hold: Hold,
        settings: &Settings,
        tokenizer: &Tokenizer,
        template: Option<&str>,
    ) -> Result<Encoded> {
        meter::mark();
        let source = Source { settings, tokenizer, template };
        let tokens = data::tokens(source, self.cache.as_ref(), hold == Hold::Tokens, &mut |heard, done, total| {
            let what = match heard {
                Heard::Looking => "looking at rows",
                Heard::Tokenising => "tokenising",
                Heard::Reading => "reading tokens",
            };
            self.watch.borrow_mut().progress(what, done, total, Count::Bytes);
        })?;
        let mut measured = PerPlace::default();
        measured[Place::Ram] = meter::peak();
        let (train, held) = data::split(tokens.sizes(), settings.holdout)?;
        let draws = vec![draw(settings, train.len())?];
        Ok(Encoded { tokens, train, held, draws, measured })
    }

    /// Several tokenised sets as one, with how many files each was read from.
    pub fn mix(&self, parts: &[(Arc<Encoded>, usize)]) -> Arc<Encoded> {
        let key: Vec<usize> = parts.iter().map(|(part, _)| Arc::as_ptr(part) as usize).collect();
        if let Some(found) = self.mixed.borrow().get(&key) {
            return found.clone();
        }
        let tokens = TokenSet::join(parts.iter().map(|(part, files)| (&part.tokens, *files)));
        let (mut train, mut held, mut draws, mut base) = (Vec::new(), Vec::new(), Vec::new(), 0u32);
        for (part, _) in parts {
            let start = train.len();
            train.extend(part.train.iter().map(|row| base.saturating_add(*row)));
            held.extend(part.held.iter().map(|row| base.saturating_add(*row)));
            draws.extend(part.draws.iter().map(|draw| Draw { end: start + draw.end, ..*draw }));
            base = base.saturating_add(u32::try_from(part.tokens.len()).unwrap_or(u32::MAX));
        }
        let measured = parts.iter().fold(PerPlace::default(), |most, (part, _)| most.max(part.measured));
        let made = Arc::new(Encoded { tokens, train, held, draws, measured });
        self.mixed.borrow_mut().insert(key, made.clone());
        made
    }
}

/// How much of a set's rows an epoch has.
fn draw(settings: &Settings, rows: usize) -> Result<Draw> {
    let take = match settings.take {
        None => None,
        Some(Take::Rows(n)) => Some(n),
        Some(Take::Percent(share)) => Some(((rows as f64 * share / 100.0).round() as usize).max(1)),
    };
    match take {
        Some(0) => {
            Err(Fault::new("data.share", "`take=0rows` leaves an epoch without rows").help("leave the data out"))
        }
        Some(n) if n > rows => {
            Err(Fault::new("data.share", format!("an epoch cannot take {n} rows: there are {rows} to train on"))
                .help("`repeat=2` goes through all of them twice"))
        }
        take => Ok(Draw { end: rows, take, repeat: settings.repeat }),
    }
}

impl ModelFiles {
    /// The same files without the tokenizer: what a body reads weights from.
    pub fn for_weights(&self) -> ModelFiles {
        let gone = Err("the tokenizer is not kept for the run".to_owned());
        ModelFiles { source: self.source.clone(), shape: self.shape.clone(), tokenizer: gone }
    }
}

fn open_model(path: &Path) -> Result<ModelFiles> {
    let mut source = ModelSource::open(path)?;
    let shape = Shape::from_config(source.config())
        .map_err(|fault| if fault.spot.is_none() { fault.at(path) } else { fault })?;
    let given: Vec<(&str, &[usize])> = source.tensors().iter().map(|t| (t.name.as_str(), t.shape.as_slice())).collect();
    shape.check_names(&given).map_err(|fault| if fault.spot.is_none() { fault.at(path) } else { fault })?;
    // Found here, and not when the first of them is read.
    shape.tensors().iter().try_for_each(|tensor| source.check_readable(&tensor.name))?;
    let tokenizer = match source.tokenizer() {
        TokenizerSource::HfJson(hf) => Ok(Arc::new(Tokenizer::from_files(TokenizerFiles {
            tokenizer_json: TokenizerJson::Path(hf.path.clone()),
            tokenizer_config: hf.config.clone(),
            special_tokens_map: hf.special_tokens.clone(),
            chat_template: hf.template.clone(),
        })?)),
        TokenizerSource::Gguf(vocab) => Ok(Arc::new(Tokenizer::from_gguf(vocab)?)),
        TokenizerSource::Missing(words) => Err(words.clone()),
    };
    source.forget_tokenizer();
    Ok(ModelFiles { source: Arc::new(source), shape: Arc::new(shape), tokenizer })
}
