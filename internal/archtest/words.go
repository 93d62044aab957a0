package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// retired maps words that docs/reference/glossary.md retires to what is written instead. A key with several words is
// a phrase: "let go" is also found in an identifier letGo.
var retired = map[string]string{
	"tell": "report, record, log, distinguish", "tells": "report, record, log, distinguish", "told": "delivered, observed, reported",
	"telling": "reporting, recording", "suitor": "matching object", "suitors": "matching objects", "bequeath": "transfer ownership", "heir": "owner",
	"stranger": "unexpected object", "strangers": "unexpected objects", "foreign": "other owner's, unmanaged", "somebody else's": "other owner's",
	"beside": "alongside, additional", "arena": "harness", "ground": "environment", "borrowed": "external", "restless": "livelock",
	"at rest": "quiescent", "come to rest": "converge", "comes to rest": "converges", "clinging": "timeout", "anew": "again, restart",
	"begun again": "restarted", "mend": "fix", "mends": "fixes", "mended": "fixed", "cure": "fix", "promise": "invariant", "promises": "invariants",
	"promised": "guaranteed", "story": "scenario, test", "stories": "scenarios, tests", "tale": "scenario, test", "door": "listener, endpoint, transport",
	"doors": "listeners", "nobody": "no client, no user (name the actor)", "somebody": "another client, a user (name the actor)",
	"whoever": "the caller (name the actor)", "whomever": "the caller (name the actor)", "refuse": "reject, deny, forbid", "refuses": "rejects, denies, forbids",
	"refused": "rejected, denied, forbidden", "refusal": "rejection", "let go": "remove the finalizer, release", "lets go": "removes the finalizer, releases",
	"letting go": "releasing", "likeness": "equivalence", "foresee": "predict", "foresees": "predicts", "census": "classification", "ledger": "accounting",
	"survey": "classification", "belief": "cache, view, snapshot", "beliefs": "caches, views, snapshots", "patience": "timeout, deadline",
	"all is quiet": "quiescent", "make small": "shrink", "makes small": "shrinks", "keep back": "delay", "kept back": "delayed", "hold back": "delay",
	"held back": "delayed", "bring back": "reset, restore", "brought back": "reset, restored", "side by side": "concurrently, in parallel",
	"none of ours": "unsupported", "run that held": "run that passed",
}

// unaffected are texts in which a retired word is right: terms of others.
var unaffected = regexp.MustCompile(`(?i)connection refused|refused to connect|foreign key|lanes? of belief`)

var (
	retiredText = retiredPattern()
	inlineCode  = regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)|https?://\\S+")
)

func retiredPattern() *regexp.Regexp {
	var all []string
	for w := range retired {
		all = append(all, strings.ReplaceAll(regexp.QuoteMeta(w), " ", `\s+`))
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(all, "|") + `)\b`)
}

// retiredIn returns the retired words of a text, in lower case and with single spaces.
func retiredIn(text string) (words []string) {
	for _, m := range retiredText.FindAllString(unaffected.ReplaceAllString(text, ""), -1) {
		words = append(words, strings.ToLower(strings.Join(strings.Fields(m), " ")))
	}
	return words
}

// CheckGoWords reports the retired words in the declared identifiers, the exported doc comments and the messages of a Go
// file. A string literal without a space is data (a key, a kind, a file name) and is not checked, nor are struct tags.
func CheckGoWords(where string, src []byte) (violations []string, err error) {
	if generated.Match(src) {
		return nil, nil
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, where, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	report := func(pos token.Pos, what string, words []string) {
		for _, w := range words {
			violations = append(violations, fmt.Sprintf("%s:%d: %s %q: write %s", where, set.Position(pos).Line, what, w, retired[w]))
		}
	}
	identifier := func(id *ast.Ident) {
		report(id.Pos(), "identifier "+id.Name+" has the retired word", retiredIn(strings.Join(camelWords(id.Name), " ")))
	}
	for _, id := range declared(f) {
		identifier(id)
	}
	doc := func(exported bool, comments ...*ast.CommentGroup) {
		for _, c := range comments {
			if exported && c != nil {
				report(c.Pos(), "doc comment has the retired word", retiredIn(c.Text()))
			}
		}
	}
	doc(true, f.Doc)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.FuncDecl:
			if n.Recv != nil {
				identifier(n.Name)
			}
			doc(n.Name.IsExported(), n.Doc)
		case *ast.GenDecl:
			for _, s := range n.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					doc(s.Name.IsExported(), n.Doc, s.Doc)
				case *ast.ValueSpec:
					doc(s.Names[0].IsExported(), n.Doc, s.Doc)
				}
			}
		case *ast.StructType:
			for _, field := range n.Fields.List {
				for _, id := range field.Names {
					identifier(id)
					doc(id.IsExported(), field.Doc, field.Comment)
				}
				field.Tag = nil
			}
		case *ast.InterfaceType:
			for _, method := range n.Methods.List {
				for _, id := range method.Names {
					identifier(id)
					doc(id.IsExported(), method.Doc)
				}
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && strings.Contains(text, " ") {
				report(n.Pos(), "string has the retired word", retiredIn(text))
			}
		}
		return true
	})
	return violations, nil
}

// CheckMarkdownWords reports the retired words of a page. Code and the targets of links are left out: what is code is
// checked where it is declared.
func CheckMarkdownWords(where string, src []byte) (violations []string) {
	fenced := false
	for i, line := range strings.Split(string(src), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if fenced {
			continue
		}
		for _, w := range retiredIn(inlineCode.ReplaceAllString(line, "")) {
			violations = append(violations, fmt.Sprintf("%s:%d: retired word %q: write %s", filepath.ToSlash(where), i+1, w, retired[w]))
		}
	}
	return violations
}

// camelWords splits an identifier at its capitals: "RESTConfig" is REST and Config.
func camelWords(name string) (words []string) {
	start := 0
	for i := 1; i < len(name); i++ {
		upper := func(i int) bool { return i < len(name) && name[i] >= 'A' && name[i] <= 'Z' }
		lower := func(i int) bool { return i < len(name) && name[i] >= 'a' && name[i] <= 'z' }
		if name[i] == '_' || upper(i) && (!upper(i-1) || lower(i+1)) {
			words, start = append(words, strings.Trim(name[start:i], "_")), i
		}
	}
	return append(words, strings.Trim(name[start:], "_"))
}
