package expr

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"reflect"
	"strings"

	"github.com/itchyny/gojq"
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
)

// A jq program comes from a user and runs on objects of other users. gojq bounds neither
// the size of a value nor the work of one function, so a program is rewritten before it
// is compiled: whatever may make much of little is preceded by a guard, which measures
// what it is given and pays for it out of the work of the run. A value that is shared
// counts each time that it is reached ([.,.], repeated, has no end).

const (
	// mostWork is what one run of a program may spend: one unit is a value, or 16
	// bytes of text.
	mostWork = 2 << 20
	// mostProgram is how many bytes a program may have.
	mostProgram = 16 << 10

	jqGuard = "__guard"
	jqWork  = "$__work"
	jqLeft  = "$__left"
	jqRight = "$__right"
)

// jqSpent is the work of one run.
type jqSpent struct {
	left  int
	grown int // bytes of the texts put into others by sub and gsub
	over  error
}

// spend pays for some work. Once there is too much of it, every guard fails.
func (s *jqSpent) spend(n int) error {
	if s.over == nil && (n < 0 || n > s.left) {
		s.over = &limit.Exceeded{Reason: "the program does too much: a value in it grows too large, or is gone through too often"}
	}
	s.left -= n
	return s.over
}

// weigh is how much there is to a value, up to most.
func weigh(v any, most, depth int) int {
	if depth > limit.Depth {
		return most + 1
	}
	sum := 1
	switch v := v.(type) {
	case string:
		return 1 + len(v)/16
	case *big.Int:
		return 1 + v.BitLen()/8
	case []any:
		for _, item := range v {
			if sum += weigh(item, most-sum, depth+1); sum > most {
				return sum
			}
		}
	case map[string]any:
		for key, item := range v {
			if sum += 1 + len(key)/16 + weigh(item, most-sum, depth+1); sum > most {
				return sum
			}
		}
	}
	return sum
}

func (s *jqSpent) weigh(v any) int { return weigh(v, max(s.left, 0), 0) }

// guard pays for what follows; args are what it is given besides the input.
func (s *jqSpent) guard(kind string, input any, args ...any) error {
	size := func(i int) int { return s.weigh(args[i]) }
	var cost int
	switch kind {
	case "operator":
		cost = size(0) + size(1)
	case "multiply":
		cost = size(0) + size(1) + repeated(args[0], args[1]) + repeated(args[1], args[0])
		if a, b := bits(args[0]), bits(args[1]); a+b > 128 {
			cost += (a + b) * (a + b) / 4096
		}
	case "subtract": // every item of one is compared with every item of the other
		cost = limit.Product(length(args[0]), size(1))
	case "contains":
		if cost = s.weigh(input) + size(0); length(input) > 0 {
			if _, isText := input.(string); !isText {
				cost = limit.Product(s.weigh(input), size(0))
			}
		}
	case "join":
		cost = s.weigh(input) + limit.Product(length(input), size(0))
	case "transpose":
		cost = limit.Product(length(input), longest(input))
	case "square":
		cost = s.weigh(input)
		cost += limit.Product(cost, cost) / 256
	case "regexp": // a match may be found at every byte, and is an object then
		cost = 16 * (s.weigh(input) + size(0))
		if text, ok := input.(string); ok {
			cost += 16 * len(text)
		}
	case "replace": // for every match the text is gone through again
		cost = 16 * (s.weigh(input) + size(0))
		if text, ok := input.(string); ok {
			cost += 16*len(text) + limit.Product(len(text), len(text))/128
		}
	case "grow":
		if text, ok := input.(string); ok {
			s.grown += len(text)
		}
		cost = 1 + s.grown/16
	case "format":
		cost = 16 * (s.weigh(input) + size(0))
	case "path":
		if cost = s.weigh(input); tooDeep(args[0]) {
			cost = math.MaxInt32
		}
		for i := range args {
			cost += size(i)
		}
	case "index":
		cost = 1
		if n, ok := gojq.ToFloat64(input); ok && math.Abs(n) > limit.Items {
			cost = math.MaxInt32
		}
	default:
		cost = s.weigh(input)
		for i := range args {
			cost += size(i)
		}
	}
	return s.spend(cost)
}

// repeated is the cost of a text times a number.
func repeated(text, times any) int {
	t, isText := text.(string)
	n, isNumber := gojq.ToFloat64(times)
	if !isText || !isNumber || n <= 0 {
		return 0
	}
	return limit.Product(len(t), int(min(n, math.MaxInt32))) / 16
}

func bits(v any) int {
	switch v := v.(type) {
	case int:
		return 64
	case *big.Int:
		return v.BitLen()
	}
	return 0
}

func length(v any) int {
	switch v := v.(type) {
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	case string:
		return 1 + len(v)/16
	}
	return 1
}

func longest(v any) (n int) {
	rows, _ := v.([]any)
	for _, row := range rows {
		n = max(n, length(row))
	}
	return n
}

// tooDeep reports whether a path, or a list of paths, leads deeper or further along a list than values may extend.
func tooDeep(path any) bool {
	steps, _ := path.([]any)
	if len(steps) > limit.Depth {
		if _, isPath := steps[0].([]any); !isPath {
			return true
		}
	}
	for _, step := range steps {
		if n, ok := gojq.ToFloat64(step); ok && math.Abs(n) > limit.Items {
			return true
		}
		if slice, ok := step.(map[string]any); ok && tooDeep([]any{slice["start"], slice["end"]}) {
			return true
		}
		if inner, ok := step.([]any); ok && tooDeep(inner) {
			return true
		}
	}
	return false
}

// guardFunction is what the guards of a compiled program call.
func guardFunction(input any, args []any) any {
	kind, _ := args[0].(string)
	work, ok := args[1].(*jqSpent)
	if !ok {
		return fmt.Errorf("%s is not for programs", jqGuard)
	}
	if err := work.guard(kind, input, args[2:]...); err != nil {
		return err
	}
	return input
}

// unbounded are jq functions whose cost nothing here bounds.
var unbounded = map[string]string{
	"INDEX": "", "JOIN": "", "combinations": "", "fromstream": "", "truncate_stream": "", "tostream": "",
}

// stepwise are functions that cost steps only, which are counted anyway.
var stepwise = map[string]bool{
	"select": true, "empty": true, "not": true, "type": true, "map": true, "any": true, "all": true,
	"recurse": true, "first": true, "last": true, "nth": true, "limit": true, "skip": true, "until": true, "while": true, "repeat": true,
	"range": true, "isempty": true, "values": true, "nulls": true, "strings": true, "numbers": true, "booleans": true,
	"arrays": true, "objects": true, "iterables": true, "scalars": true, "true": true, "false": true, "null": true,
}

// byValue are the functions that take values, by name and number of arguments, and
// the kind of their guard.
var byValue = map[string]string{
	"join/1": "join", "split/1": "call", "contains/1": "contains", "inside/1": "contains", "indices/1": "contains", "index/1": "contains",
	"rindex/1": "contains", "has/1": "call", "flatten/1": "call", "startswith/1": "call", "endswith/1": "call", "ltrimstr/1": "call",
	"rtrimstr/1": "call", "trimstr/1": "call", "getpath/1": "path", "delpaths/1": "path", "strftime/1": "format", "strptime/1": "format",
	"bsearch/1": "call", "setpath/2": "path",
	"test/1": "regexp", "test/2": "regexp", "match/1": "regexp", "match/2": "regexp", "capture/1": "regexp", "capture/2": "regexp",
	"scan/1": "replace", "scan/2": "replace", "splits/1": "replace", "splits/2": "replace", "split/2": "replace",
	"sub/2": "replace", "sub/3": "replace", "gsub/2": "replace", "gsub/3": "replace",
}

// kindsOfGuard are the guards of other functions; "call" is that of all not named.
var kindsOfGuard = map[string]string{
	"transpose": "transpose", "pick": "square", "del": "square", "paths": "square", "unique_by": "square",
}

// guarding rewrites one program.
type guarding struct {
	own    map[string]bool // functions that the program itself defines and that are in scope, as "name/arguments"
	failed error
}

// guarded rewrites a parsed program so that its runs are bounded.
func guarded(parsed *gojq.Query, text string) error {
	for _, reserved := range []string{jqGuard, jqWork, jqLeft, jqRight, nowVariable} {
		if strings.Contains(text, reserved) {
			return fmt.Errorf("%s may not be used", reserved)
		}
	}
	g := &guarding{}
	g.visit(reflect.ValueOf(parsed))
	return g.failed
}

// visit rewrites every node of a program, each after those that it is made of.
func (g *guarding) visit(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		outer := g.own
		if q, ok := v.Interface().(*gojq.Query); ok {
			g.define(q.FuncDefs)
		}
		g.visit(v.Elem())
		g.own = outer
		g.rewrite(v.Interface())
	case reflect.Slice:
		if v.Type() == definitionsType {
			return // define has visited them
		}
		for i := range v.Len() {
			g.visit(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			g.visit(v.Field(i))
		}
	}
}

var definitionsType = reflect.TypeFor[[]*gojq.FuncDef]()

// define visits the functions that a query defines and brings them into scope: each is known in its own body, in the
// definitions after it and in the query. Elsewhere its name is that of a function of jq.
func (g *guarding) define(definitions []*gojq.FuncDef) {
	for _, f := range definitions {
		g.own = maps.Clone(g.own)
		if g.own == nil {
			g.own = map[string]bool{}
		}
		g.own[signature(f.Name, len(f.Args))] = true
		outer := g.own
		g.own = maps.Clone(outer)
		for _, parameter := range f.Args {
			g.own[signature(strings.TrimPrefix(parameter, "$"), 0)] = true
		}
		g.visit(reflect.ValueOf(f.Body))
		g.own = outer
	}
}

func signature(name string, arguments int) string { return fmt.Sprintf("%s/%d", name, arguments) }

func (g *guarding) rewrite(node any) {
	switch node := node.(type) {
	case *gojq.Query:
		g.query(node)
	case *gojq.Term:
		g.term(node)
	case *gojq.Index:
		node.Start, node.End = guardedIndex(node.Start), guardedIndex(node.End)
	case *gojq.String:
		for i, q := range node.Queries {
			if q.Term == nil || q.Term.Str == nil {
				node.Queries[i] = enclosed(pipe(q, guardCall("call")))
			}
		}
	}
}

// guardedIndex bounds the place in a list that is computed.
func guardedIndex(q *gojq.Query) *gojq.Query {
	if q == nil || q.Term != nil && q.Term.Type == gojq.TermTypeNumber && len(q.Term.SuffixList) == 0 && len(q.Term.Number) <= 5 || isConstant(q) && q.Term.Type == gojq.TermTypeString {
		return q
	}
	return pipe(q, guardCall("index"))
}

// arithmetic is the guard of an operator.
var arithmetic = map[gojq.Operator]string{
	gojq.OpAdd: "operator", gojq.OpSub: "subtract", gojq.OpMul: "multiply", gojq.OpDiv: "operator", gojq.OpMod: "operator",
	gojq.OpEq: "operator", gojq.OpNe: "operator", gojq.OpGt: "operator", gojq.OpLt: "operator", gojq.OpGe: "operator", gojq.OpLe: "operator",
}

var compares = map[gojq.Operator]bool{
	gojq.OpEq: true, gojq.OpNe: true, gojq.OpGt: true, gojq.OpLt: true, gojq.OpGe: true, gojq.OpLe: true,
}

// updating is the operator within one that assigns.
var updating = map[gojq.Operator]gojq.Operator{
	gojq.OpUpdateAdd: gojq.OpAdd, gojq.OpUpdateSub: gojq.OpSub, gojq.OpUpdateMul: gojq.OpMul, gojq.OpUpdateDiv: gojq.OpDiv, gojq.OpUpdateMod: gojq.OpMod,
}

func (g *guarding) query(q *gojq.Query) {
	if q.Right == nil {
		return
	}
	op := q.Op
	kind, isArithmetic := arithmetic[op]
	inner, isUpdate := updating[op]
	definitions := q.FuncDefs
	switch {
	case compares[op] && (isConstant(q.Left) || isConstant(q.Right)):
		return // with a constant
	case isArithmetic:
		*q = *bind(q.Right, jqRight, bind(q.Left, jqLeft, pipe(guardCall(kind, jqLeft, jqRight),
			&gojq.Query{Left: variable(jqLeft), Op: op, Right: variable(jqRight)})))
	case isUpdate:
		step := bind(dot(), jqLeft, pipe(guardCall(arithmetic[inner], jqLeft, jqRight),
			&gojq.Query{Left: variable(jqLeft), Op: inner, Right: variable(jqRight)}))
		*q = *bind(q.Right, jqRight, pipe(guardCall("call", jqRight), &gojq.Query{Left: q.Left, Op: gojq.OpModify, Right: enclosed(step)}))
	case op == gojq.OpAssign, op == gojq.OpModify, op == gojq.OpUpdateAlt:
		*q = *pipe(guardCall("call"), &gojq.Query{Left: q.Left, Op: op, Right: q.Right})
	default:
		return
	}
	if definitions != nil {
		body := *q
		*q = *enclosed(&body)
		q.FuncDefs = definitions
	}
}

func (g *guarding) term(t *gojq.Term) {
	base := *t
	base.SuffixList = nil
	var replaced *gojq.Query
	switch t.Type {
	case gojq.TermTypeArray:
		if t.Array.Query != nil {
			replaced = pipe(&gojq.Query{Term: &base}, guardCall("call"))
		}
	case gojq.TermTypeObject:
		if len(t.Object.KeyVals) > 0 {
			replaced = pipe(&gojq.Query{Term: &base}, guardCall("call"))
		}
	case gojq.TermTypeFormat:
		replaced = pipe(guardCall("call"), &gojq.Query{Term: &base})
	case gojq.TermTypeFunc:
		replaced = g.call(t.Func, &base)
	}
	if replaced != nil {
		*t = gojq.Term{Type: gojq.TermTypeQuery, Query: replaced, SuffixList: t.SuffixList}
	}
}

// call puts a guard before a call; nil where none is needed.
func (g *guarding) call(f *gojq.Func, base *gojq.Term) *gojq.Query {
	name := f.Name
	if strings.HasPrefix(name, "$") || name == jqGuard || g.own[signature(name, len(f.Args))] || stepwise[name] {
		return nil
	}
	if _, found := unbounded[name]; found {
		g.failed = fmt.Errorf("%s may not be used: nothing bounds what it costs", name)
		return nil
	}
	called := *f
	called.Args = append([]*gojq.Query(nil), f.Args...)
	base.Func = &called
	call := &gojq.Query{Term: base}
	kind, values := byValue[signature(name, len(f.Args))]
	if !values {
		kind = "call"
		if k := kindsOfGuard[name]; k != "" {
			kind = k
		}
		return pipe(guardCall(kind), call)
	}
	if name == "sub" || name == "gsub" {
		called.Args[1] = pipe(enclosed(f.Args[1]), guardCall("grow"))
	}
	first := f.Args[0]
	called.Args[0] = variable(jqLeft)
	if name == "setpath" { // its last argument is the outer loop
		called.Args[1] = variable(jqRight)
		return bind(f.Args[1], jqRight, bind(first, jqLeft, pipe(guardCall(kind, jqLeft, jqRight), call)))
	}
	return bind(first, jqLeft, pipe(guardCall(kind, jqLeft), call))
}

func isConstant(q *gojq.Query) bool {
	if q.Term == nil || len(q.Term.SuffixList) > 0 || len(q.FuncDefs) > 0 {
		return false
	}
	switch q.Term.Type {
	case gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNumber:
		return true
	case gojq.TermTypeString:
		return q.Term.Str.Queries == nil
	}
	return false
}

// What rewritten programs are made of.

func dot() *gojq.Query { return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}} }

func enclosed(q *gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeQuery, Query: q}}
}

func pipe(from, to *gojq.Query) *gojq.Query {
	return &gojq.Query{Left: enclosed(from), Op: gojq.OpPipe, Right: to}
}

func variable(name string) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name}}}
}

// bind is "value as $name | body".
func bind(value *gojq.Query, name string, body *gojq.Query) *gojq.Query {
	return &gojq.Query{Left: enclosed(value), Patterns: []*gojq.Pattern{{Name: name}}, Op: gojq.OpPipe, Right: body}
}

func guardCall(kind string, of ...string) *gojq.Query {
	f := &gojq.Func{Name: jqGuard, Args: []*gojq.Query{
		{Term: &gojq.Term{Type: gojq.TermTypeString, Str: &gojq.String{Str: kind}}}, variable(jqWork),
	}}
	for _, name := range of {
		f.Args = append(f.Args, variable(name))
	}
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: f}}
}
