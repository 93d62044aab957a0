package render

import (
	"reflect"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/rehearse-k8s/rehearse/stage/expr"
	corev1 "k8s.io/api/core/v1"
)

// fieldsRead are the parts of an object that a template may read, by field and by field of
// that, such as spec and nodeName. A field that stands for itself is read as a whole.
// Nil is the whole object. Most templates read a tenth of a pod, and to show a pod to a
// template takes about as long as to run it.
type fieldsRead map[string]map[string]bool

// readsOf finds out what a template reads. It may find more than is ever read, never less:
// names count wherever they stand, and a template that hands on the object itself, or
// has templates of its own, reads everything.
func readsOf(t *template.Template) fieldsRead {
	if t.Tree == nil || len(t.Templates()) > 1 {
		return nil
	}
	f := &finding{reads: fieldsRead{}}
	f.list(t.Root, true)
	if f.everything {
		return nil
	}
	return f.reads
}

// finding walks a template. atRoot says whether the dot is the object.
type finding struct {
	reads      fieldsRead
	everything bool
}

func (f *finding) list(l *parse.ListNode, atRoot bool) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		f.node(n, atRoot)
	}
}

func (f *finding) node(n parse.Node, atRoot bool) {
	switch n := n.(type) {
	case *parse.ActionNode:
		f.pipe(n.Pipe, atRoot)
	case *parse.IfNode:
		f.branch(&n.BranchNode, atRoot, atRoot)
	case *parse.RangeNode:
		f.branch(&n.BranchNode, atRoot, false)
	case *parse.WithNode:
		f.branch(&n.BranchNode, atRoot, false)
	case *parse.PipeNode:
		f.pipe(n, atRoot)
	case *parse.ChainNode:
		f.node(n.Node, atRoot)
	case *parse.FieldNode:
		f.field(n.Ident)
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			f.field(n.Ident[1:])
		}
	case *parse.DotNode:
		f.everything = f.everything || atRoot
	case *parse.TextNode, *parse.CommentNode, *parse.IdentifierNode, *parse.BoolNode, *parse.NumberNode, *parse.StringNode,
		*parse.NilNode, *parse.BreakNode, *parse.ContinueNode:
	default: // a call of another template, or what is not known here
		f.everything = true
	}
}

func (f *finding) branch(n *parse.BranchNode, atRoot, within bool) {
	f.pipe(n.Pipe, atRoot)
	f.list(n.List, within)
	f.list(n.ElseList, atRoot)
}

func (f *finding) pipe(p *parse.PipeNode, atRoot bool) {
	if p == nil {
		return
	}
	for _, c := range p.Cmds {
		for _, arg := range c.Args {
			f.node(arg, atRoot)
		}
	}
}

func (f *finding) field(path []string) {
	if len(path) == 0 {
		f.everything = true
		return
	}
	within, found := f.reads[path[0]]
	switch {
	case len(path) == 1:
		f.reads[path[0]] = nil
	case !found:
		f.reads[path[0]] = map[string]bool{path[1]: true}
	case within != nil:
		within[path[1]] = true
	}
}

// picked are the fields of a part of an object that are read, by their place in its struct.
type picked struct {
	whole  bool
	places []int
}

// pickedParts are what is read of metadata, spec and status; nil for everything.
type pickedParts *[3]picked

// parts finds the fields of a pod or a node. Objects of other kinds are JSON
// already, and shown as a whole.
func (r fieldsRead) parts(object expr.Form) pickedParts {
	var of reflect.Type
	switch {
	case r == nil:
		return nil
	case object == expr.Pod:
		of = reflect.TypeFor[corev1.Pod]()
	case object == expr.Node:
		of = reflect.TypeFor[corev1.Node]()
	default:
		return nil
	}
	var out [3]picked
	for i, name := range []string{"metadata", "spec", "status"} {
		fields, found := r[name]
		out[i].whole = found && fields == nil
		part, _ := of.FieldByName([]string{"ObjectMeta", "Spec", "Status"}[i])
		for place := range part.Type.NumField() {
			if name, _, _ := strings.Cut(part.Type.Field(place).Tag.Get("json"), ","); fields[name] {
				out[i].places = append(out[i].places, place)
			}
		}
	}
	return &out
}

// shown is a copy of an object that has what is read and nothing else; it shares parts with
// it.
func shown(of any, parts pickedParts) any {
	if parts == nil {
		return of
	}
	switch o := of.(type) {
	case *corev1.Pod:
		c := &corev1.Pod{TypeMeta: o.TypeMeta}
		pick(parts[0], &o.ObjectMeta, &c.ObjectMeta)
		pick(parts[1], &o.Spec, &c.Spec)
		pick(parts[2], &o.Status, &c.Status)
		return c
	case *corev1.Node:
		c := &corev1.Node{TypeMeta: o.TypeMeta}
		pick(parts[0], &o.ObjectMeta, &c.ObjectMeta)
		pick(parts[1], &o.Spec, &c.Spec)
		pick(parts[2], &o.Status, &c.Status)
		return c
	}
	return of
}

func pick[T any](p picked, from, to *T) {
	if p.whole {
		*to = *from
		return
	}
	if len(p.places) == 0 {
		return
	}
	a, b := reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem()
	for _, place := range p.places {
		b.Field(place).Set(a.Field(place))
	}
}
