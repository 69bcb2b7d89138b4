//! Our dashboard and alert rules: what each query uses, what its result has, and what is said with
//! that.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use promql_parser::{
    label::{MatchOp, Matcher},
    parser::{self, BinaryExpr, Expr, LabelModifier, VectorMatchCardinality, VectorSelector, token},
    util::parse_duration,
};
use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

use crate::observed::{json, root};

/// A query, and the labels of its result that a legend or a text shows.
pub struct Query {
    pub expr: String,
    pub shown: Vec<String>,
}

/// All of the dashboard and of the alerts.
pub fn queries() -> Vec<Query> {
    let mut found = dashboard();
    assert!(found.len() > 40, "{}", found.len());
    let alerts = alerts();
    assert!(alerts.len() >= 10, "{}", alerts.len());
    found.extend(alerts);
    found
}

fn dashboard() -> Vec<Query> {
    let text = fs::read_to_string(root().join("dist/grafana/mendpath.json")).unwrap();
    let dashboard = json(&text);
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: BTreeSet<&str> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    let mut found: Vec<Query> =
        variables.iter().filter(|variable| variable["type"] == "query").map(variable).collect();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expr = target["expr"].as_str().unwrap().to_owned();
            let shown = between(target["legendFormat"].as_str().unwrap(), "{{", "}}");
            // Several instances may have paths and accounts of one name.
            let is_one_of_many = shown.iter().any(|label| label == "path" || label == "account");
            assert!(!is_one_of_many || shown.iter().any(|label| label == "instance"), "{expr}");
            found.push(Query { expr, shown });
        }
    }
    for query in &found {
        for name in query.expr.split('$').skip(1) {
            let name: String = name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            assert!(name == "__rate_interval" || names.contains(name.as_str()), "${name}: {}", query.expr);
        }
    }
    found
}

/// A variable of the dashboard, which is written twice.
fn variable(variable: &Value) -> Query {
    let definition = variable["definition"].as_str().unwrap();
    assert_eq!(variable["query"]["query"], *definition);
    let inside = definition.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
    let (expr, label) = inside.and_then(|rest| rest.rsplit_once(", ")).expect("of this form");
    Query { expr: expr.to_owned(), shown: vec![label.to_owned()] }
}

fn alerts() -> Vec<Query> {
    let text = fs::read_to_string(root().join("dist/prometheus/alerts.yml")).unwrap();
    let documents = YamlLoader::load_from_str(&text).unwrap();
    assert_eq!(documents.len(), 1);
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    for group in list(&documents[0], "groups", &["groups"]) {
        assert!(group["name"].as_str().is_some());
        for rule in list(group, "rules", &["name", "rules"]) {
            keys(rule, &["alert", "expr", "for", "labels", "annotations"]);
            let name = rule["alert"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} is there twice");
            if let Some(time) = rule["for"].as_str() {
                parse_duration(time).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            keys(&rule["labels"], &["severity"]);
            let severity = rule["labels"]["severity"].as_str().unwrap();
            assert!(["info", "warning", "critical"].contains(&severity), "{name}: {severity}");
            keys(&rule["annotations"], &["summary"]);
            let shown = between(rule["annotations"]["summary"].as_str().unwrap(), "{{", "}}");
            let labels = shown.iter().map(|part| part.strip_prefix("$labels.").expect(part).to_owned());
            found.push(Query { expr: rule["expr"].as_str().unwrap().to_owned(), shown: labels.collect() });
        }
    }
    found
}

fn list<'a>(of: &'a Yaml, key: &str, known: &[&str]) -> &'a [Yaml] {
    keys(of, known);
    of[key].as_vec().unwrap_or_else(|| panic!("{key} is no list"))
}

/// Prometheus refuses keys that it does not know.
fn keys(of: &Yaml, known: &[&str]) {
    for key in of.as_hash().unwrap().keys() {
        assert!(known.contains(&key.as_str().unwrap()), "{key:?} is none of {known:?}");
    }
}

/// What stands between such brackets, each time.
fn between(text: &str, open: &str, close: &str) -> Vec<String> {
    let parts = text.split(open).skip(1);
    parts.map(|part| part.split_once(close).expect("it ends").0.trim().to_owned()).collect()
}

/// Values of labels of metrics.
pub type Labels = BTreeMap<String, BTreeSet<String>>;

/// Labels that a Prometheus server adds when it asks.
const ADDED: [&str; 2] = ["instance", "job"];

/// What programs print, and what the documentation says of it.
pub struct Known {
    /// The samples: name, label, values.
    pub printed: BTreeMap<String, Labels>,
    /// Values that labels may have, by metric as it is documented.
    pub documented: BTreeMap<String, Labels>,
}

impl Known {
    /// The labels that a query's result has.
    ///
    /// # Panics
    /// If it asks for what nobody prints.
    pub fn result(&self, expr: &Expr) -> BTreeSet<String> {
        match expr {
            Expr::VectorSelector(selector) => self.selector(selector),
            Expr::MatrixSelector(matrix) => self.selector(&matrix.vs),
            Expr::Paren(inner) => self.result(&inner.expr),
            Expr::Unary(inner) => self.result(&inner.expr),
            Expr::Subquery(inner) => self.result(&inner.expr),
            Expr::Call(call) => {
                let mut labels: BTreeSet<String> =
                    call.args.args.iter().flat_map(|argument| self.result(argument)).collect();
                if call.func.name == "histogram_quantile" {
                    assert!(labels.remove("le"), "{expr} needs the label le");
                }
                labels
            }
            Expr::Aggregate(aggregate) => {
                let inner = self.result(&aggregate.expr);
                match &aggregate.modifier {
                    None => BTreeSet::new(),
                    Some(LabelModifier::Include(labels)) => {
                        grouped(&labels.labels, &inner, expr);
                        labels.labels.iter().cloned().collect()
                    }
                    Some(LabelModifier::Exclude(labels)) => {
                        grouped(&labels.labels, &inner, expr);
                        inner.into_iter().filter(|label| !labels.labels.contains(label)).collect()
                    }
                }
            }
            Expr::Binary(binary) => self.binary(binary, expr),
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) => BTreeSet::new(),
            Expr::Extension(_) => panic!("{expr}"),
        }
    }

    fn binary(&self, binary: &BinaryExpr, expr: &Expr) -> BTreeSet<String> {
        let (left, right) = (self.result(&binary.lhs), self.result(&binary.rhs));
        let is_number =
            |side: &Expr| matches!(parser::Expr::value_type(side), parser::value::ValueType::Scalar);
        if is_number(&binary.lhs) {
            return right;
        }
        if is_number(&binary.rhs) {
            return left;
        }
        let matching = binary.modifier.as_ref().and_then(|modifier| modifier.matching.as_ref());
        if let Some(modifier) = matching {
            grouped(&modifier.labels().labels, &left, expr);
            grouped(&modifier.labels().labels, &right, expr);
        }
        let card = binary.modifier.as_ref().map(|modifier| &modifier.card);
        // Series of unequal labels never meet.
        assert!(matching.is_some() || left == right, "{expr}: {left:?} and {right:?}");
        let is_set = [token::T_LAND, token::T_LOR, token::T_LUNLESS].contains(&binary.op.id());
        match (card, matching) {
            (Some(VectorMatchCardinality::ManyToOne(more)), _) => {
                left.into_iter().chain(more.labels.clone()).collect()
            }
            (Some(VectorMatchCardinality::OneToMany(more)), _) => {
                right.into_iter().chain(more.labels.clone()).collect()
            }
            _ if is_set => left,
            (_, Some(LabelModifier::Include(on))) => on.labels.iter().cloned().collect(),
            (_, Some(LabelModifier::Exclude(off))) => {
                left.into_iter().filter(|label| !off.labels.contains(label)).collect()
            }
            (_, None) => left,
        }
    }

    fn selector(&self, selector: &VectorSelector) -> BTreeSet<String> {
        let name = selector.name.as_deref().expect("selectors have names");
        let labels = self.printed.get(name).unwrap_or_else(|| panic!("nobody prints {name}: {selector}"));
        for matcher in &selector.matchers.matchers {
            if ADDED.contains(&matcher.name.as_str()) {
                continue;
            }
            let values = labels.get(&matcher.name);
            let values = values.unwrap_or_else(|| panic!("{name} has no label {}: {selector}", matcher.name));
            self.values(name, matcher, values);
        }
        labels.keys().cloned().chain(ADDED.map(str::to_owned)).collect()
    }

    /// Whether a label can have the values that a query looks for.
    fn values(&self, name: &str, matcher: &Matcher, printed: &BTreeSet<String>) {
        if matcher.value.starts_with('$') {
            return;
        }
        let family =
            ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let documented = self.documented.get(family).and_then(|labels| labels.get(&matcher.name));
        let wanted = match &matcher.op {
            MatchOp::Equal | MatchOp::NotEqual => vec![matcher.value.as_str()],
            MatchOp::Re(_) | MatchOp::NotRe(_) => matcher.value.split('|').collect(),
        };
        for value in wanted {
            let there = printed.contains(value) || documented.is_some_and(|values| values.contains(value));
            assert!(there, "{name} never has {}=\"{value}\"", matcher.name);
        }
    }
}

fn grouped(labels: &[String], have: &BTreeSet<String>, expr: &Expr) {
    for label in labels {
        assert!(have.contains(label), "there is no label {label}: {expr}");
    }
}

#[test]
fn queries_for_what_nobody_prints_are_found() {
    let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    let known = Known {
        printed: BTreeMap::from([
            ("up".to_owned(), Labels::new()),
            ("loss".to_owned(), Labels::from([("path".to_owned(), values(&["a"]))])),
            ("time_bucket".to_owned(), Labels::from([("le".to_owned(), values(&["1"]))])),
        ]),
        documented: BTreeMap::from([(
            "loss".to_owned(),
            Labels::from([("path".to_owned(), values(&["b"]))]),
        )]),
    };
    let result = |query: &str| {
        let expr = parser::parse(query).unwrap();
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| known.result(&expr))).ok()
    };
    let labels = |labels: &[&str]| Some(labels.iter().map(|label| (*label).to_owned()).collect());
    assert_eq!(result("loss{path=~\"a|b\"} > 0.5"), labels(&["instance", "job", "path"]));
    assert_eq!(result("sum by (path) (loss)"), labels(&["path"]));
    assert_eq!(result("up * on (instance) up"), labels(&["instance"]));
    assert_eq!(result("loss and on (instance) up"), labels(&["instance", "job", "path"]));
    assert_eq!(result("histogram_quantile(0.5, time_bucket)"), labels(&["instance", "job"]));
    for wrong in
        ["down", "up{path=\"a\"}", "loss{path=\"c\"}", "sum by (account) (loss)", "loss / up", "sum(up) > up"]
    {
        assert_eq!(result(wrong), None, "{wrong}");
    }
}
