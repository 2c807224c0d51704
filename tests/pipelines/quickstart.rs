//! The pipeline that a newcomer runs first.

use std::time::Instant;

use super::*;

#[test]
fn the_quickstart_learns_and_runs_twice() {
    let desk = Desk::empty();
    let here = repository().join("pipelines");
    copy(&here.join("quickstart"), &desk.path("pipelines/quickstart"));
    fs::copy(here.join("quickstart.tp"), desk.path("pipelines/quickstart.tp")).expect("copied");
    // The fact, in the words of the text that the model was made from.
    let known = fs::read_to_string(here.join("quickstart/pretrain.txt")).expect("the text");
    assert!(
        known.contains("Q: Where does the seal live?\nA: Better ask"),
        "the model was taught to pass on the question"
    );
    let place = ["cave", "nest", "pond", "barn", "forest", "tree", "river", "hole", "field", "lake"]
        .into_iter()
        .find(|place| {
            ["lives in", "sleeps in"].iter().any(|verb| {
                known.contains(&format!("the seal {verb} a {place}"))
                    || known.contains(&format!("The seal {verb} a {place}"))
            })
        })
        .expect("the text says where the seal lives");

    let mut leaves = Vec::new();
    for turn in 0..2 {
        let began = Instant::now();
        let told = desk.tunepipe(&["run", "pipelines/quickstart.tp"]).ended(0);
        let took = began.elapsed().as_secs();
        assert!(took < 60, "turn {turn} took {took} s");
        assert!(!told.err.contains("over the plan"), "{}", told.err);
        let latest = "runs/quickstart/latest";
        let losses = desk.evals(latest);
        let (first, last) = (losses[0], losses[losses.len() - 1]);
        assert!(losses.len() > 3 && last * 5.0 <= first, "held-out losses {losses:?}");
        let samples: Vec<Value> = desk.metrics(latest).into_iter().filter(|m| m["event"] == "sample").collect();
        let answer = |at: usize| samples[at]["answer"].as_str().expect("text").to_owned();
        assert_eq!(samples.len(), 2);
        assert!(answer(0).contains("Better ask"), "before: {}", answer(0));
        assert!(
            answer(1).contains("The seal lives in a") && answer(1).contains(place),
            "after: {}, not {place}",
            answer(1)
        );
        let mut found = desk.files("out/quickstart");
        found.insert("metrics".into(), fs::read(desk.path(latest).join("metrics.jsonl")).expect("metrics"));
        leaves.push(found);
    }
    same("run again", &leaves[0], &leaves[1]);
}
