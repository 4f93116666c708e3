//! Tests of what expressions mean, what they cost, and how they fail.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn input() -> Value {
    json!({
        "name": "web", "n": 3, "f": 1.5, "yes": true, "none": null, "list": [1, 2, 3], "words": ["b", "a"],
        "map": {"a": 1, "b": 2}, "nested": [{"k": "x", "v": 1}, {"k": "y", "v": 2}],
    })
}

fn run(expression: &str) -> Result<Value, String> {
    let program = compile(expression, &[("self", Decl::of(Type::Dyn))]).map_err(|error| error.to_string())?;
    evaluate(&program, &[("self", &input())]).map_err(|error| error.to_string())
}

/// Expressions that are true.
fn holds(expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(run(expression), Ok(json!(true)), "{expression}");
    }
}

/// Expressions that fail, and a part of the message.
fn fails(rows: &[(&str, &str)]) {
    for (expression, expect) in rows {
        let error = run(expression).expect_err(expression);
        assert!(error.contains(expect), "{expression}: {error}");
    }
}

#[test]
fn operators_have_their_ranks() {
    holds(&[
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "10 - 2 - 3 == 5",
        "-2 * -3 == 6",
        "- self.n == -3",
        "7 / 2 == 3 && 7 % 2 == 1 && -7 / 2 == -3",
        "!false || false && false",
        "true ? true : false ? false : false",
        "1 < 2 && 2 <= 2 && 3 > 2 && 3 >= 3 && 1 != 2",
        "1.5 + 1.5 == 3.0",
        "1u + 2u == 3u",
        "0x10 == 16 && 1e3 == 1000.0 && -9223372036854775808 < 0",
        "'a' + \"b\" == 'ab'",
        "[1] + [2] == [1, 2]",
        "b'ab' + b'c' == b'abc'",
        "2 in [1, 2] && !(3 in [1, 2]) && 'a' in self.map && !('z' in self.map)",
        "dyn(1) == dyn(1.0) && dyn(1u) == dyn(1) && dyn('1') != dyn(1)",
        "{'a': [1], 'b': [2]} == {'b': [2], 'a': [1]}",
        "1 < 2.5 && 2u > 1",
    ]);
}

#[test]
fn literals_are_read() {
    holds(&[
        r#""\n\t\"\x41\u00e9\U0001F600" == '\n\t"Aé😀'"#,
        r#"r'\d' == '\\d'"#,
        "'''a\nb''' == \"a\\nb\"",
        r"b'\xff' == b'\377'",
        "// a comment\ntrue",
        "null == null",
    ]);
}

#[test]
fn fields_are_selected() {
    holds(&[
        "self.name == 'web' && self['name'] == 'web' && self.list[1] == 2",
        "has(self.name) && !has(self.zzz) && has(self.none)",
        "self.none == null",
        "self.?zzz.orValue('d') == 'd' && self.?name.orValue('d') == 'web'",
        "self.?zzz.?deep.hasValue() == false",
        "self[?'name'].value() == 'web' && self.list[?9].orValue(0) == 0",
        "[?self.?zzz, 1].size() == 1 && {?'a': self.?zzz}.size() == 0",
        "self.?name.optMap(n, n + '!').value() == 'web!'",
        "optional.of(1).or(optional.of(2)).value() == 1 && !optional.ofNonZeroValue('').hasValue()",
    ]);
    fails(&[
        ("self.zzz", "no such key: zzz"),
        ("self.list[9] == 1", "index out of bounds: 9"),
        ("self.map['z'] == 1", "no such key: z"),
        ("self.name.x == 1", "no such overload"),
        ("optional.none().value() == 1", "optional.none() dereference"),
    ]);
}

#[test]
fn macros_fold() {
    holds(&[
        "self.list.all(x, x > 0) && !self.list.all(x, x > 1)",
        "self.list.exists(x, x == 2) && !self.list.exists(x, x == 9)",
        "self.list.exists_one(x, x == 2)",
        "self.list.filter(x, x > 1) == [2, 3]",
        "self.list.map(x, x * 2) == [2, 4, 6] && self.list.map(x, x > 1, x * 2) == [4, 6]",
        "self.map.all(k, self.map[k] > 0) && self.map.map(k, k) == ['a', 'b']",
        "self.map.all(k, v, k != '' && v > 0) && self.list.exists(i, v, i == 0 && v == 1)",
        "self.map.transformMap(k, v, v * 10) == {'a': 10, 'b': 20}",
        "self.map.transformMap(k, v, v > 1, v) == {'b': 2}",
        "self.list.transformList(i, v, i + v) == [1, 3, 5]",
        "self.nested.transformMapEntry(i, e, {e.k: e.v}) == {'x': 1, 'y': 2}",
        "self.nested.all(a, self.nested.exists(b, a.k == b.k))",
        "cel.bind(x, self.n, x + x == 6)",
        "[1, 0].exists(x, 1 / x == 1) && ![0, 1].all(x, 1 / x == 2)",
    ]);
    fails(&[
        ("[0].exists(x, 1 / x == 1)", "division by zero"),
        ("[0, 1].map(x, 1 / x) == []", "division by zero"),
        ("self.n.all(x, true)", "no such overload"),
    ]);
}

#[test]
fn errors_are_absorbed_where_they_do_not_matter() {
    holds(&["true || 1 / 0 == 1", "1 / 0 == 1 || true", "!(1 / 0 == 1 && false)", "false ? 1 / 0 == 1 : true"]);
    fails(&[("1 / 0 == 1 || false", "division by zero"), ("1 / 0 == 1 && true", "division by zero")]);
}

#[test]
fn arithmetic_does_not_wrap() {
    fails(&[
        ("9223372036854775807 + self.n == 0", "integer overflow"),
        ("-9223372036854775808 - self.n == 0", "integer overflow"),
        ("9223372036854775807 * self.n == 0", "integer overflow"),
        ("5 % 0 == 1", "modulus by zero"),
        ("9223372036854775808 == 1", "invalid int literal"),
        ("duration('9999999999s') == duration('1s')", "type conversion error"),
        ("int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("uint(-1) == 1u", "unsigned integer overflow"),
    ]);
}

#[test]
fn texts_have_functions() {
    holds(&[
        "'héllo'.size() == 5 && size('') == 0",
        "'hello'.contains('ell') && 'hello'.startsWith('he') && 'hello'.endsWith('lo')",
        "'hello'.matches('^h.*o$') && matches('a1', '[0-9]') && !'a'.matches('^\\\\d$')",
        "'hello'.charAt(4) == 'o' && 'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3",
        "'hello'.indexOf('l', 3) == 3 && 'hello'.indexOf('z') == -1 && 'hello'.lastIndexOf('l', 2) == 2",
        "'Ab'.lowerAscii() == 'ab' && 'Ab'.upperAscii() == 'AB' && '  a '.trim() == 'a'",
        "'aXbX'.replace('X', '-') == 'a-b-' && 'aXbX'.replace('X', '-', 1) == 'a-bX'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b']",
        "'hello'.substring(1) == 'ello' && 'hello'.substring(1, 3) == 'el'",
        "['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'",
        "'%s is %d, %.2f, %x, %b, %%'.format(['a', 3, 1.5, 255, true]) == 'a is 3, 1.50, ff, 1, %'",
        "'%s'.format([[1, {'a': null}]]) == '[1, {a: null}]' && '%e'.format([1234.5]) == '1.234500e+03'",
        "'abc 123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]') == ['1', '2'] && 'a1b2'.findAll('[0-9]', 1) == ['1']",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
    ]);
    fails(&[
        ("'a'.charAt(2) == ''", "index out of range: 2"),
        ("'abc'.substring(2, 1) == ''", "invalid substring range"),
        ("'%d'.format(['a']) == ''", "could not convert argument to %d"),
        ("'%s'.format([]) == ''", "index out of range"),
        ("'a'.matches('(')", "unclosed group"),
        ("'a'.matches('(' + self.name)", "unclosed group"),
    ]);
}

#[test]
fn lists_have_functions() {
    holds(&[
        "self.list.isSorted() && !self.words.isSorted()",
        "self.list.sum() == 6 && self.list.min() == 1 && self.list.max() == 3 && [1.5, 0.5].sum() == 2.0",
        "self.list.indexOf(2) == 1 && [1, 2, 1].lastIndexOf(1) == 2 && self.list.indexOf(9) == -1",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 2, 2], [2, 1]) && !sets.intersects([1], [2])",
    ]);
    fails(&[("[].min() == 1", "min called on empty list")]);
}

#[test]
fn conversions_follow_the_types() {
    holds(&[
        "int('12') == 12 && int(1.9) == 1 && int(2u) == 2 && uint(3) == 3u && double(2) == 2.0 && double('1.5') == 1.5",
        "string(1) == '1' && string(1.5) == '1.5' && string(true) == 'true' && string(b'a') == 'a' && bytes('a') == b'a'",
        "string(duration('90m')) == '5400s' && string(timestamp('2024-01-01T00:00:00Z')) == '2024-01-01T00:00:00Z'",
        "bool('true') && type(1) == int && type('') == string && type([]) == list && type(null) == null_type",
    ]);
}

#[test]
fn times_are_counted() {
    holds(&[
        "timestamp('2024-02-29T12:30:45.678Z').getFullYear() == 2024",
        "timestamp('2024-02-29T12:30:45Z').getMonth() == 1 && timestamp('2024-02-29T12:30:45Z').getDate() == 29",
        "timestamp('2024-02-29T12:30:45Z').getDayOfMonth() == 28 && timestamp('2024-02-29T12:30:45Z').getDayOfWeek() == 4",
        "timestamp('2024-03-01T00:00:00Z').getDayOfYear() == 60 && timestamp('2024-01-01T00:00:00Z').getDayOfYear() == 0",
        "timestamp('2024-02-29T12:30:45Z').getHours() == 12 && timestamp('2024-02-29T12:30:45Z').getHours('+02:00') == 14",
        "timestamp('2024-01-01T00:00:00Z').getFullYear('-01:00') == 2023",
        "timestamp('2024-02-29T12:30:45.678Z').getMilliseconds() == 678 && duration('1h1m').getMinutes() == 61",
        "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')",
        "timestamp('2024-01-01T00:00:00Z') + duration('1m') == timestamp('2024-01-01T00:01:00Z')",
        "duration('1m') > duration('59s') && duration('1h') - duration('1m') == duration('59m')",
        "int(timestamp('1970-01-01T00:01:00Z')) == 60 && timestamp(60) == timestamp('1970-01-01T00:01:00Z')",
    ]);
    fails(&[("timestamp('9999-12-31T23:59:59Z') + duration('1s') == timestamp(0)", "timestamp overflow")]);
}

#[test]
fn kubernetes_library_is_there() {
    holds(&[
        "url('https://u@h.example:80/p?a=1&a=2').getHost() == 'h.example:80' && url('https://h/p').getScheme() == 'https'",
        "url('https://h:80/p').getPort() == '80' && url('https://[::1]:80/').getHostname() == '::1'",
        "url('/a b').getEscapedPath() == '/a%20b' && url('/?a=1&a=2').getQuery()['a'] == ['1', '2'] && !isURL('a b')",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && isQuantity('10m') && !isQuantity('x')",
        "quantity('1500m').add(quantity('500m')) == quantity('2') && quantity('2').sub(1).asInteger() == 1",
        "quantity('-1').sign() == -1 && !quantity('1500m').isInteger() && quantity('1500m').asApproximateFloat() == 1.5",
        "quantity('1').compareTo(quantity('2')) == -1 && string(quantity('1000m')) == '1'",
        "ip('10.0.0.1').family() == 4 && isIP('::1') && !isIP('x') && ip('127.0.0.1').isLoopback()",
        "ip.isCanonical('::1') && !ip.isCanonical('0:0::1') && ip('fe80::1').isLinkLocalUnicast() && ip('8.8.8.8').isGlobalUnicast()",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1')) && isCIDR('::/0')",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
        "cidr('10.0.0.0/8').prefixLength() == 8 && cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && cidr('::/0').containsIP('::1')",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && isSemver('1.0.0') && !isSemver('v1') && isSemver('v1', true)",
        "semver('1.2.3').major() == 1 && semver('1.2.3').compareTo(semver('1.2.3')) == 0",
        "!format.dns1123Label().validate('abc').hasValue() && format.named('dns1123Label').value().validate('A').hasValue()",
        "!format.named('zzz').hasValue() && format.uuid().validate('x').value() == ['invalid uuid']",
    ]);
    fails(&[
        ("quantity('x').isInteger()", "quantities must match"),
        ("ip('x').family() == 4", "parse error during conversion"),
        ("url('a b').getHost() == ''", "URL parse error during conversion from string"),
    ]);
}

#[test]
fn mistakes_are_found_before_running() {
    let spec = ObjectType {
        name: "Spec".to_owned(),
        fields: [("a", Type::Int), ("s", Type::String)]
            .map(|(name, ty)| (name.to_owned(), FieldDecl { json: name.to_owned(), decl: Decl::of(ty) }))
            .into(),
    };
    let variables = [("self", Decl::of(Type::Object(spec.into()))), ("l", Decl::list(Decl::of(Type::Int), 10))];
    let check = |expression: &str, expect: &str| {
        let error = compile(expression, &variables).expect_err(expression).to_string();
        assert!(error.contains(expect), "{expression}: {error}");
    };
    check("self.z == 1", "ERROR: <input>:1:5: undefined field 'z'\n | self.z == 1\n | ....^");
    check("self.a == 'x'", "found no matching overload for '_==_' applied to '(int, string)'");
    check("self.a.startsWith('x')", "found no matching overload for 'startsWith' applied to 'int.(string)'");
    check("zzz == 1", "undeclared reference to 'zzz' (in container '')");
    check("zzz(1)", "undeclared reference to 'zzz' (in container '')");
    check("self.a && true", "found no matching overload for '_&&_'");
    check("self.a ? 1 : 2", "found no matching overload for '_?_:_'");
    check("l.all(x, x)", "expected type 'bool' but found 'int'");
    check("self.all(x, true)", "cannot be range of a comprehension");
    check("[1, 'a'].size() == 2", "expected type 'int' but found 'string'");
    check("self.s.x == 1", "type 'string' does not support field selection");
    check("l['a'] == 1", "found no matching overload for '_[_]' applied to '(list(int), string)'");
    check("self.a ==", "Syntax error: mismatched input <EOF>");
    check("self.a === 1", "Syntax error");
    check("'abc", "unterminated string");
    check("has(self)", "invalid argument to has() macro");
    check("package == 1", "reserved identifier: package");
    check("l.map(1, 2) == []", "argument must be a simple name");
    check("self.a ==\n self.z", "ERROR: <input>:2:6: undefined field 'z'");
    let fine = |expression: &str| compile(expression, &variables).map(|program| program.result().to_string());
    assert_eq!(fine("l.map(x, string(x))"), Ok("list(string)".to_owned()));
    assert_eq!(fine("l.filter(x, x > self.a)[0]"), Ok("int".to_owned()));
    assert_eq!(fine("self.s == null ? 1 : 2"), Ok("int".to_owned()));
    assert!(compile("self.a == 1", &variables).unwrap().uses("self"));
    assert!(!compile("l.all(self, self == 1)", &variables).unwrap().uses("self"));
}

#[test]
fn no_expression_runs_for_long() {
    let big: Vec<Value> = vec![json!("xxxxxxxxxx"); 2000];
    let check = |expression: &str| {
        let program = compile(expression, &[("l", Decl::of(Type::Dyn))]).unwrap();
        let error = evaluate(&program, &[("l", &json!(big))]).expect_err(expression);
        assert_eq!(error, Error::TooExpensive, "{expression}");
    };
    check("l.all(a, l.all(b, a == b))");
    check("l.map(a, l.map(b, a + b)).size() == 1");
    check("l.all(a, l.join('').size() > 0 && l.join('').contains('y') == false)");
    check("l.all(a, a.matches('^' + a + '$'))");
    let mut doubling = "s.size() > 0".to_owned();
    for _ in 0..40 {
        doubling = format!("cel.bind(s, s + s, {doubling})");
    }
    check(&format!("cel.bind(s, l.join(), {doubling})"));
    let doubling = doubling.replace("s.size() > 0", "s == []");
    check(&format!("cel.bind(s, l, {doubling})"));
}

#[test]
fn deep_expressions_are_refused() {
    for deep in [
        "(".repeat(5000),
        format!("{}1", "-".repeat(5000)),
        format!("1{}", " + 1".repeat(5000)),
        format!("self{}", ".a".repeat(5000)),
        "[".repeat(5000),
    ] {
        let error = compile(&deep, &[("self", Decl::of(Type::Dyn))]).expect_err("too deep").to_string();
        assert!(error.contains("expression recursion limit exceeded"), "{}", &error[..80]);
    }
    let almost = format!("1{} == 149", " + 1".repeat(148));
    assert_eq!(run(&almost), Ok(json!(true)));
    let almost = format!("{}true{}", "(".repeat(60), ")".repeat(60));
    assert_eq!(run(&almost), Ok(json!(true)));
    let long = format!("true{}", " || true".repeat(5000));
    assert!(compile(&long, &[]).is_ok());
}

#[test]
fn regular_expressions_are_bounded_together() {
    let many: Vec<String> = (0..40).map(|n| format!("'a'.matches('^([a-z]{{500}}){{1,10}}{n}$')")).collect();
    let error = compile(&many.join(" || "), &[]).expect_err("too large").to_string();
    assert!(error.contains("too large together"), "{error}");
    assert!(compile(&many[0], &[]).unwrap().regex_memory() > 0);
}

#[test]
fn costs_are_estimated_by_sizes() {
    let cost = |expression: &str, decl: Decl| compile(expression, &[("x", decl)]).unwrap().estimated_cost();
    let words = |count: u64, length: u64| Decl::list(Decl::new(Type::String, length), count);
    assert!(cost("x.all(a, a.startsWith('b'))", words(10, 10)) < 100);
    assert!(cost("x.all(a, a.startsWith('b'))", words(MAX_SIZE, MAX_SIZE)) > 10_000_000);
    assert!(cost("x.all(a, x.all(b, a != b))", words(100, 10)) < 10_000_000);
    assert!(cost("x.all(a, x.all(b, a != b))", words(10_000, 10)) > 10_000_000);
    assert!(cost("x.all(a, x.all(b, x.all(c, x.all(d, x.all(e, a == e)))))", words(u64::MAX, 1)) == u64::MAX);
}

proptest! {
    #[test]
    fn no_text_breaks_the_compiler(text in "[ a-c0-9.()\\[\\]{}?:+*/%!<>=&|,'\"\\\\-]{0,40}") {
        let _ = compile(&text, &[("a", Decl::of(Type::Dyn)), ("b", Decl::of(Type::String))]);
    }

    #[test]
    fn every_expression_ends_with_a_value_or_an_error(words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 1..12)) {
        if let Ok(program) = compile(&words.concat(), &[("self", Decl::of(Type::Dyn))]) {
            let input = input();
            let outcome = program.run(vec![("self", Val::of(&input, Decl::dynamic()))], 10_000);
            prop_assert!(outcome.cost <= 10_000);
            if let (Ok(value), false) = (&outcome.result, program.result().is_dyn()) {
                prop_assert!(program.result().fits(&type_of(value), &mut Default::default()), "{value:?}");
            }
        }
    }
}

const WORDS: [&str; 40] = [
    "self",
    ".list",
    ".name",
    ".n",
    ".f",
    ".map",
    "[0]",
    "[1]",
    "['a']",
    " + ",
    " - ",
    " * ",
    " / ",
    " == ",
    " < ",
    " && ",
    " || ",
    "!",
    "(",
    ")",
    "1",
    "2u",
    "1.5",
    "'a'",
    "[1, 2]",
    "{'a': 1}",
    ".size()",
    ".all(x, x == 1)",
    ".map(x, x)",
    ".filter(x, true)",
    ".exists(x, x > 1)",
    ".contains('a')",
    ".split('')",
    ".join()",
    " ? 1 : 2",
    " in ",
    "duration('1s')",
    "quantity('1')",
    "ip('::1')",
    "null",
];

/// The type that a value shows, as far as it does.
fn type_of(value: &Val<'_>) -> Type {
    match value.type_name() {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        _ => Type::Dyn,
    }
}
