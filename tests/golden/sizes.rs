//! The catalogue's shapes against models that transformers has counted.

use std::collections::BTreeSet;

use tunepipe::catalog::Catalog;
use tunepipe::model::{Role, Shape};

use super::json;

#[test]
fn parameters_of_published_models_are_transformers_to_the_last_one() {
    let expected = json("sizes/expected.json");
    let expected = expected.as_object().expect("an object");
    let catalog = Catalog::standard();
    for (name, counts) in expected {
        let declared = catalog.shape(name).unwrap_or_else(|| panic!("{name} is not in the catalogue"));
        let shape = Shape::from_keys(&declared.keys).unwrap_or_else(|fault| panic!("{name}: {}", fault.message));
        assert_eq!(Some(shape.parameters()), counts["parameters"].as_u64(), "{name}");
        let tensors = shape.tensors();
        let linear = tensors.iter().filter(|tensor| matches!(tensor.role, Role::Linear(_)));
        let linear: u64 = linear.map(|tensor| tensor.shape.iter().product::<usize>() as u64).sum();
        assert_eq!(Some(linear), counts["linear"].as_u64(), "{name}");
    }
    // Only the quickstart's own model was published by nobody.
    let declared: BTreeSet<&str> = catalog.shapes.iter().map(|shape| shape.name.as_str()).collect();
    let strangers: Vec<&&str> = declared.iter().filter(|name| !expected.contains_key(**name)).collect();
    assert_eq!(strangers, [&"tiny-llama"]);
}
