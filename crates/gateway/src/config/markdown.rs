//! Agents from files of Markdown: a head in YAML that says what the agent is, and below it, for a model, what it is told.
//!
//! A file that is wrong harms no other: what it said last stays in force, and what is wrong is told with line and column.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use chancery_sdk::is_agent_name;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::check;
use super::document::{Node, Origin};
use super::front_matter::{CommandChoice, FrontMatter, ModelChoice};
use super::problem::Problem;
use super::section::{
    AgentKind, AgentSection, CardSection, CommandSection, Definable, MarkdownSection, ModelSection,
    RuntimeSection, SkillSection,
};
use crate::fleet::RESERVED;
use crate::identity::files::read_foreign;

/// How long a file may be, and how many a folder may have.
const LARGEST: u64 = 1 << 20;
const MOST: usize = 10_000;

/// What stands around the head of a file.
const FENCE: &str = "---";

/// The folders, and what their files said last.
#[derive(Debug, Default)]
pub(crate) struct Folders(Mutex<HashMap<PathBuf, Known>>);

/// What is known of a file.
#[derive(Debug)]
struct Known {
    written: Option<Written>,
    /// What the folder says for those that say nothing.
    default: String,
    /// What it said when it was last right.
    good: Option<AgentSection>,
    /// The name that it has in what was read last.
    name: Option<String>,
    problems: Vec<Problem>,
}

/// When a file was last written, and how long it is.
pub(crate) type Written = (SystemTime, u64);

/// When each file of some folders was last written: differs once anything has.
pub(crate) type Standing = BTreeMap<PathBuf, Option<Written>>;

impl Folders {
    /// The agents of the folders of a configuration file in this directory, and what is wrong with their files. Names that
    /// are taken already are not taken again.
    pub(crate) fn read(
        &self,
        folders: &[MarkdownSection],
        directory: &Path,
        taken: &[AgentSection],
    ) -> (Vec<AgentSection>, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut known = self.0.lock();
        let mut seen = BTreeSet::new();
        for folder in folders {
            let folder_path = directory.join(&folder.folder);
            let files = files(&folder_path).unwrap_or_else(|problem| {
                problems.push(problem);
                Vec::new()
            });
            for file in files {
                if !seen.insert(file.clone()) {
                    problems.push(Problem::new(at(&file, 1, 1), "", "its folder is named twice"));
                    continue;
                }
                let known = known.entry(file.clone()).or_insert_with(Known::nothing);
                known.look(&file, folder);
                problems.extend(known.problems.iter().cloned());
            }
        }
        known.retain(|file, _| seen.contains(file));
        let agents = named(&mut known, taken, &mut problems);
        (agents, problems)
    }

    /// When the files of the folders were last written.
    pub(crate) fn standing(folders: &[MarkdownSection], directory: &Path) -> Standing {
        let all =
            folders.iter().flat_map(|folder| files(&directory.join(&folder.folder)).unwrap_or_default());
        all.map(|file| (file.clone(), written(&file))).collect()
    }
}

/// The agents that files describe, of which no two have the same name. An agent of the configuration keeps its name, and so does a
/// file that has it already; of several that are new, none gets it.
fn named(
    known: &mut HashMap<PathBuf, Known>,
    taken: &[AgentSection],
    problems: &mut Vec<Problem>,
) -> Vec<AgentSection> {
    let taken: BTreeSet<&str> = taken.iter().map(|agent| agent.name.as_str()).collect();
    let mut claims: BTreeMap<String, BTreeMap<PathBuf, bool>> = BTreeMap::new();
    for (file, known) in &mut *known {
        let had = known.name.take();
        if let Some(agent) = &known.good {
            let has_it = had.as_ref() == Some(&agent.name);
            claims.entry(agent.name.clone()).or_default().insert(file.clone(), has_it);
        }
    }
    let mut agents = BTreeMap::new();
    for (name, files) in &claims {
        let is_only = files.len() == 1;
        let keeper = files.iter().find(|(_, has_it)| is_only || **has_it).map(|(file, _)| file);
        let keeper = keeper.filter(|_| !taken.contains(name.as_str()));
        for file in files.keys().filter(|file| Some(*file) != keeper) {
            let other = files.keys().find(|other| *other != file);
            problems.push(match other.filter(|_| keeper.is_none() && !taken.contains(name.as_str())) {
                Some(other) => claimed_twice(file, other, name),
                None => taken_already(file, name),
            });
        }
        if let Some((file, known)) = keeper.and_then(|file| Some((file, known.get_mut(file)?))) {
            known.name = Some(name.clone());
            agents.extend(known.good.clone().map(|agent| (file.clone(), agent)));
        }
    }
    agents.into_values().collect()
}

impl Known {
    fn nothing() -> Self {
        Self { written: None, default: String::new(), good: None, name: None, problems: Vec::new() }
    }

    /// Reads the file, unless it is as it was.
    fn look(&mut self, file: &Path, folder: &MarkdownSection) {
        let (written, default) = (written(file), serde_json::to_string(folder).unwrap_or_default());
        if written.is_some() && written == self.written && default == self.default {
            return;
        }
        if default != self.default {
            // What the file said before is not what the folder allows now.
            self.good = None;
        }
        (self.written, self.default) = (written, default);
        match read(file, folder) {
            Ok(agent) => (self.good, self.problems) = (Some(agent), Vec::new()),
            Err(problems) => self.problems = problems,
        }
    }
}

/// Of a link, when that was made: where it leads is not looked at.
fn written(file: &Path) -> Option<Written> {
    let found = std::fs::symlink_metadata(file).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// The `*.md` of a folder, in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let problem = |what: String| Problem::new(at(folder, 1, 1), "", what);
    let entries =
        std::fs::read_dir(folder).map_err(|error| problem(format!("cannot read the folder: {error}")))?;
    let is_markdown = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let found = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_markdown);
    let mut files: Vec<_> = found.take(MOST + 1).collect();
    if files.len() > MOST {
        return Err(problem(format!("there are more than {MOST} files")));
    }
    files.sort();
    Ok(files)
}

fn read(file: &Path, folder: &MarkdownSection) -> Result<AgentSection, Vec<Problem>> {
    let problem = |what: String| vec![Problem::new(at(file, 1, 1), "", what)];
    let bytes = read_foreign(file, LARGEST).map_err(|error| problem(format!("cannot read it: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| problem("it is no text in UTF-8".to_owned()))?;
    parse(file, &text, folder)
}

/// What a file says.
fn parse(file: &Path, text: &str, folder: &MarkdownSection) -> Result<AgentSection, Vec<Problem>> {
    let problem = |what: String| vec![Problem::new(at(file, 1, 1), "", what)];
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (head, body) = split(text).ok_or_else(|| {
        problem("it has no head: begin with a line `---`, and end the head with another".to_owned())
    })?;
    let yaml = file.with_extension("yaml");
    // The empty line stands for the fence, so that lines are counted as in the file.
    let node = Node::parse(&yaml, &format!("\n{head}")).map_err(|problems| renamed(problems, file))?;
    let wrong = check::check(&node, schema().as_value());
    if !wrong.is_empty() {
        return Err(renamed(wrong, file));
    }
    let front: FrontMatter = serde_json::from_value(node.to_value())
        .map_err(|error| problem(format!("cannot be understood: {error}")))?;
    let agent = section(file, front, body.trim(), folder, &digest(text))
        .map_err(|(key, what)| vec![placed(file, &node, key, what)])?;
    let wrong = complaints(&agent);
    match wrong.is_empty() {
        true => Ok(agent),
        false => Err(wrong.into_iter().map(|(key, what)| placed(file, &node, key, what)).collect()),
    }
}

/// The JSON Schema of the head of a file.
pub(crate) fn schema() -> schemars::Schema {
    schemars::schema_for!(FrontMatter)
}

/// The head of a file and what is below it.
fn split(text: &str) -> Option<(&str, &str)> {
    let (first, rest) = text.split_once('\n')?;
    if first.trim_end() != FENCE {
        return None;
    }
    let mut place = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == FENCE {
            return Some((&rest[..place], &rest[place + line.len()..]));
        }
        place += line.len();
    }
    None
}

/// The agent that a file describes.
fn section(
    file: &Path,
    front: FrontMatter,
    body: &str,
    folder: &MarkdownSection,
    digest: &str,
) -> Result<AgentSection, (&'static str, String)> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let name = front.name.unwrap_or_else(|| stem.to_ascii_lowercase().replace(['_', ' ', '.'], "-"));
    if !is_agent_name(&name) {
        return Err((
            "name",
            format!("`{name}` is no name for an agent; use small letters, digits and dashes"),
        ));
    }
    if RESERVED.contains(&name.as_str()) {
        return Err(("name", format!("`{name}` is reserved, and is no name for an agent; choose another")));
    }
    let skills = match front.skills.is_empty() {
        false => front.skills,
        true => vec![SkillSection {
            id: name.clone(),
            name: None,
            description: front.description.clone().unwrap_or_else(|| name.clone()),
            tags: front.tags,
            examples: front.examples,
        }],
    };
    let runtime = RuntimeSection {
        role: front.role,
        cardinality: front.cardinality.unwrap_or_default(),
        scheduling: front.scheduling,
        required_skills: front.tools,
        labels: front.labels,
    };
    let card = CardSection {
        description: front.description,
        version: Some(front.version.unwrap_or_else(|| format!("0.1.0+{digest}"))),
        skills,
        input_modes: front.input_modes,
        output_modes: front.output_modes,
        runtime,
    };
    let mut agent = AgentSection::new(&name, AgentKind::Absent);
    (agent.card, agent.price, agent.described_in) = (Some(card), front.price, Some(file.to_owned()));
    agent.claims_skills = folder.may_define.contains(&Definable::Skills);
    // What the file says itself goes before what its folder says.
    match (front.model, front.command) {
        (Some(_), Some(_)) => return Err(("model", "say `model` or `command`, not both".to_owned())),
        (Some(choice), None) => {
            let model = chosen_model(choice, folder).map_err(|why| ("model", why))?;
            agent.answered_by(model, body);
        }
        (None, Some(choice)) => {
            agent.run_by(chosen_command(choice, folder).map_err(|why| ("command", why))?);
        }
        (None, None) => match (&folder.model, &folder.command) {
            (Some(model), _) => agent.answered_by(model.clone(), body),
            (None, Some(command)) => agent.run_by(command.clone()),
            (None, None) => {
                let why = "neither the file nor its folder says what answers: add `model` or `command`";
                agent.absent = Some(why.to_owned());
            }
        },
    }
    Ok(agent)
}

fn chosen_model(choice: ModelChoice, folder: &MarkdownSection) -> Result<ModelSection, String> {
    let may_define = folder.may_define.contains(&Definable::Model);
    match choice {
        ModelChoice::Own(model) if may_define => Ok(*model),
        ModelChoice::Own(_) => Err(not_its_to_say("model", "an endpoint")),
        ModelChoice::Named(name) => match (folder.models.get(&name), &folder.model) {
            (Some(model), _) => Ok(model.clone()),
            (None, Some(model)) if model.model == name => Ok(model.clone()),
            (None, Some(default)) if may_define => Ok(ModelSection { model: name, ..default.clone() }),
            (None, default) => {
                let default = default.iter().map(|model| &*model.model);
                Err(not_named("model", &name, folder.models.keys().map(String::as_str).chain(default)))
            }
        },
    }
}

fn chosen_command(choice: CommandChoice, folder: &MarkdownSection) -> Result<CommandSection, String> {
    let may_define = folder.may_define.contains(&Definable::Command);
    match (choice, &folder.command) {
        (CommandChoice::Named(name), _) => match folder.commands.get(&name) {
            Some(command) => Ok(command.clone()),
            None => Err(not_named("command", &name, folder.commands.keys().map(String::as_str))),
        },
        _ if !may_define => Err(not_its_to_say("command", "a program")),
        (CommandChoice::Own(command), _) => Ok(*command),
        (CommandChoice::Run(run), Some(default)) => Ok(CommandSection { run, ..default.clone() }),
        (CommandChoice::Run(run), None) => Ok(CommandSection::of(run)),
    }
}

/// The folder does not let its files say this themselves.
fn not_its_to_say(kind: &str, what: &str) -> String {
    format!(
        "a file may not name {what} of its own; the operator adds `[markdown.{kind}s.NAME]`, which the file chooses with `{kind}: NAME`, or `may_define = [\"{kind}\"]` to the folder"
    )
}

fn not_named<'a>(kind: &str, name: &str, there: impl Iterator<Item = &'a str>) -> String {
    let there: Vec<_> = there.map(|name| format!("`{name}`")).collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    format!("its folder names no {kind} `{name}`, but {there}; the operator adds `[markdown.{kind}s.{name}]`")
}

impl AgentSection {
    /// A model answers, told what the file says.
    fn answered_by(&mut self, mut model: ModelSection, body: &str) {
        if !body.is_empty() {
            model.system = Some(body.to_owned());
        }
        (self.kind, self.model) = (AgentKind::Model, Some(model));
    }

    fn run_by(&mut self, command: CommandSection) {
        (self.kind, self.command) = (AgentKind::Command, Some(command));
    }
}

/// What is wrong although each value is of the right kind: the key and what.
fn complaints(agent: &AgentSection) -> Vec<(&'static str, String)> {
    let card = agent.card.iter().flat_map(CardSection::complaints);
    let model = agent.model.iter().flat_map(ModelSection::complaints).map(|(_, what)| ("model", what));
    let command =
        agent.command.iter().flat_map(CommandSection::complaints).map(|(_, what)| ("command", what));
    card.chain(model).chain(command).collect()
}

fn placed(file: &Path, node: &Node, key: &str, what: String) -> Problem {
    let place = node.at(&[key]).map_or_else(|| at(file, 1, 1), |found| in_file(&found.origin, file));
    Problem::new(place, key, what)
}

/// Problems of the head as problems of the file that it is in.
fn renamed(problems: Vec<Problem>, file: &Path) -> Vec<Problem> {
    problems.into_iter().map(|problem| Problem { place: in_file(&problem.place, file), ..problem }).collect()
}

fn in_file(place: &Origin, file: &Path) -> Origin {
    match place {
        Origin::File { line, column, .. } => at(file, *line, *column),
        other => other.clone(),
    }
}

fn at(file: &Path, line: usize, column: usize) -> Origin {
    Origin::File { path: Arc::from(file.display().to_string()), line, column }
}

fn taken_already(file: &Path, name: &str) -> Problem {
    let what = format!("there is another agent `{name}` already; this one is left out");
    Problem::new(at(file, 1, 1), "name", what)
}

fn claimed_twice(file: &Path, other: &Path, name: &str) -> Problem {
    let other = other.display();
    let what =
        format!("{other} says that it is agent `{name}`, too; both are left out until one has another name");
    Problem::new(at(file, 1, 1), "name", what)
}

/// Tells one content from another.
fn digest(text: &str) -> String {
    Sha256::digest(text)[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::section::Cardinality;
    use super::*;

    const MODEL: &str = r#"{"folder": "x", "model": {"url": "http://localhost:1/v1", "model": "small"}}"#;

    fn folder(json: &str) -> MarkdownSection {
        serde_json::from_str(json).expect("it is a section")
    }

    fn parsed(text: &str, json: &str) -> Result<AgentSection, Vec<String>> {
        let file = Path::new("agents/Code Review.md");
        let told = |problems: Vec<Problem>| problems.iter().map(ToString::to_string).collect();
        parse(file, text, &folder(json)).map_err(told)
    }

    #[test]
    fn a_file_is_an_agent_and_its_text_is_for_the_model_alone() {
        let text = "---\ndescription: Reads diffs\ntags: [code]\nrole: reviewer\ncardinality: singleton\n---\n\nYou are strict.\n";
        let agent = parsed(text, MODEL).expect("it is right");
        assert_eq!((agent.name.as_str(), agent.kind), ("code-review", AgentKind::Model));
        let model = agent.model.as_ref().expect("the folder's");
        assert_eq!((model.model.as_str(), model.system.as_deref()), ("small", Some("You are strict.")));
        let card = agent.card.as_ref().expect("it has one");
        assert_eq!(card.skills[0].tags, ["code"]);
        assert_eq!(card.runtime.cardinality, Cardinality::Singleton);
        assert!(!serde_json::to_string(card).expect("it is JSON").contains("strict"));
        let version = card.version.clone().expect("it is made");
        let other = parsed(&text.replace("strict", "kind"), MODEL).expect("it is right");
        assert_ne!(other.card.expect("it has one").version, Some(version));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let told = parsed("---\nname: a\ndescripton: x\nskills: 7\n---\n", MODEL).expect_err("it is wrong");
        assert!(told[0].starts_with("agents/Code Review.md:3:1: `descripton`"), "{told:?}");
        assert!(told[0].contains("did you mean `description`?"), "{told:?}");
        assert!(told[1].starts_with("agents/Code Review.md:4:9: `skills`"), "{told:?}");
        let told = parsed("# No head\n", MODEL).expect_err("it is wrong");
        assert!(told[0].contains("it has no head"), "{told:?}");
        let told = parsed("---\nname: No Name\n---\n", MODEL).expect_err("it is wrong");
        assert!(told[0].contains("`No Name` is no name for an agent"), "{told:?}");
    }

    #[test]
    fn a_file_says_itself_what_answers_or_its_folder_does() {
        let bare = r#"{"folder": "x", "may_define": ["command"]}"#;
        let command = parsed("---\ncommand: [/bin/cat, -u]\n---\n", bare).expect("it is right");
        assert_eq!(command.command.expect("it says so").run, ["/bin/cat", "-u"]);
        let any = MODEL.replace("\"folder\"", "\"may_define\": [\"model\", \"command\"], \"folder\"");
        let named = parsed("---\nmodel: large\n---\nBe brief.", &any).expect("it is right");
        let model = named.model.expect("it says so");
        assert_eq!((model.model.as_str(), model.url.as_str()), ("large", "http://localhost:1/v1"));
        let absent = parsed("---\ndescription: x\n---\n", bare).expect("it is listed all the same");
        assert_eq!(absent.kind, AgentKind::Absent);
        assert!(absent.absent.expect("it says why").contains("add `model` or `command`"));
        let own = parsed("---\ncommand: [/bin/cat]\n---\n", &any).expect("it says so itself");
        assert_eq!(own.kind, AgentKind::Command);
        let both = parsed("---\nmodel: large\ncommand: [/bin/cat]\n---\n", MODEL).expect_err("it is wrong");
        assert!(both[0].contains("not both"), "{both:?}");
    }

    #[test]
    fn a_file_chooses_what_its_folder_names_and_defines_nothing() {
        let json = r#"{"folder": "x", "model": {"url": "http://localhost:1/v1", "model": "small"},
            "models": {"large": {"url": "http://localhost:2/v1", "model": "l-70b", "key_env": "KEY"}},
            "commands": {"upper": {"run": ["/usr/bin/tr", "a-z", "A-Z"]}}}"#;
        let chosen =
            parsed("---\nmodel: large\n---\nBe brief.", json).expect("it is named").model.expect("a model");
        assert_eq!((chosen.model.as_str(), chosen.key_env.as_deref()), ("l-70b", Some("KEY")));
        assert_eq!(parsed("---\nmodel: small\n---\n", json).expect("it is named").kind, AgentKind::Model);
        let chosen =
            parsed("---\ncommand: upper\n---\n", json).expect("it is named").command.expect("a program");
        assert_eq!(chosen.run[0], "/usr/bin/tr");
        for (head, why) in [
            (
                "model: {url: http://localhost:3/v1, model: m, key_env: KEY}",
                "may not name an endpoint of its own",
            ),
            ("model: huge", "names no model `huge`, but `large`, `small`"),
            ("command: [/bin/sh, -c, env]", "may not name a program of its own"),
            ("command: {run: [/bin/sh], env: [KEY]}", "may not name a program of its own"),
            ("command: lower", "names no command `lower`, but `upper`"),
        ] {
            let told = parsed(&format!("---\ndescription: x\n{head}\n---\n"), json).expect_err(head);
            assert!(told[0].starts_with("agents/Code Review.md:3:") && told[0].contains(why), "{told:?}");
        }
    }

    #[test]
    fn no_file_takes_the_name_of_another() {
        let directory = tempfile::tempdir().expect("a folder");
        let (a, b) = (directory.path().join("a.md"), directory.path().join("b.md"));
        let write = |file: &Path, text: &str| std::fs::write(file, text).expect("it is written");
        write(&b, "---\ndescription: one\n---\n");
        let (folders, sections) = (Folders::default(), [folder(&MODEL.replace("\"x\"", "\".\""))]);
        assert_eq!(folders.read(&sections, directory.path(), &[]).0[0].name, "b");
        // The first in the order of files does not take the name of one that has it.
        write(&a, "---\nname: b\n---\n");
        let (agents, problems) = folders.read(&sections, directory.path(), &[]);
        let description = agents[0].card.as_ref().and_then(|card| card.description.as_deref());
        assert_eq!((description, agents.len(), problems.len()), (Some("one"), 1, 1), "{problems:?}");
        assert!(problems[0].to_string().contains("there is another agent `b` already"));
        // Where neither has it, neither gets it.
        let (agents, problems) = Folders::default().read(&sections, directory.path(), &[]);
        assert_eq!((agents.len(), problems.len()), (0, 2), "{problems:?}");
        assert!(problems.iter().all(|problem| problem.to_string().contains("both are left out")));
        // Nor does any get that of an agent of the configuration.
        let taken = [AgentSection::new("b", AgentKind::Inbox)];
        let (agents, problems) = folders.read(&sections, directory.path(), &taken);
        assert_eq!((agents.len(), problems.len()), (0, 2), "{problems:?}");
        assert!(problems.iter().all(|problem| problem.to_string().contains("another agent `b` already")));
    }

    #[test]
    fn what_was_right_stays_while_a_file_is_wrong() {
        let directory = tempfile::tempdir().expect("a folder");
        let (a, b) = (directory.path().join("a.md"), directory.path().join("b.md"));
        let write = |file: &Path, text: &str| std::fs::write(file, text).expect("it is written");
        write(&a, "---\ndescription: one\n---\n");
        write(&b, "---\nname: c\n---\n");
        let (folders, sections) = (Folders::default(), [folder(&MODEL.replace("\"x\"", "\".\""))]);
        let (agents, problems) = folders.read(&sections, directory.path(), &[]);
        assert_eq!((agents.len(), problems.len()), (2, 0), "{problems:?}");

        let before = Folders::standing(&sections, directory.path());
        write(&a, "---\ndescription: [unclosed\n---\n");
        assert_ne!(Folders::standing(&sections, directory.path()), before);
        let (agents, problems) = folders.read(&sections, directory.path(), &[]);
        let description = agents[0].card.as_ref().and_then(|card| card.description.as_deref());
        assert_eq!((description, agents.len(), problems.len()), (Some("one"), 2, 1), "{problems:?}");

        std::fs::remove_file(&a).expect("it is removed");
        let (agents, problems) = folders.read(&sections, directory.path(), &[]);
        assert_eq!((agents.len(), problems.len()), (1, 0), "{problems:?}");
    }
}
