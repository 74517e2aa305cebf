//! The keys of a scenario file, taken from the schema of its types.

use schemars::JsonSchema;
use serde_json::Value as Json;

use super::path::Step;

/// True if the key is in the list.
pub fn has(keys: &[String], key: &str) -> bool {
    keys.iter().any(|k| k == key)
}

/// The keys of a type's table form, in the order of its fields.
pub fn keys_of<T: JsonSchema>() -> Vec<String> {
    below(&schemars::schema_for!(T).to_value(), &[])
}

/// Keys that the schema allows at a path.
pub fn below(schema: &Json, path: &[Step]) -> Vec<String> {
    let mut here = Vec::new();
    resolve(schema, schema, &mut here);
    for step in path {
        let mut found = Vec::new();
        for s in here {
            let next = match step {
                Step::Key(key) => &s["properties"][key],
                Step::Index(_) => &s["items"],
            };
            if !next.is_null() {
                resolve(schema, next, &mut found);
            }
        }
        here = found;
    }
    let mut keys: Vec<String> = Vec::new();
    for key in here.iter().filter_map(|s| s["properties"].as_object()).flat_map(|p| p.keys()) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

/// The schemas that `schema` consists of: itself, and those that it refers to or combines.
fn resolve<'s>(root: &'s Json, schema: &'s Json, found: &mut Vec<&'s Json>) {
    if let Some(target) =
        schema["$ref"].as_str().and_then(|r| root.pointer(r.trim_start_matches('#')))
    {
        resolve(root, target, found);
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        schema[key].as_array().into_iter().flatten().for_each(|s| resolve(root, s, found));
    }
    found.push(schema);
}
