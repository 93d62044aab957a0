package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
)

// checkBuiltins reports the declarations of a file that hide a predeclared identifier of Go, such as new, min or len.
// Fields and methods hide nothing, so they may have such names.
func checkBuiltins(set *token.FileSet, f *ast.File) (violations []string) {
	for _, id := range declared(f) {
		if types.Universe.Lookup(id.Name) == nil {
			continue
		}
		at := set.Position(id.Pos())
		violations = append(violations, fmt.Sprintf("%s:%d: %s hides the predeclared identifier: choose another name", filepath.Base(at.Filename), at.Line, id.Name))
	}
	return violations
}

// declared returns the identifiers that a file declares, in a block or in a package: not its fields, methods and labels.
func declared(f *ast.File) (ids []*ast.Ident) {
	params := func(lists ...*ast.FieldList) {
		for _, l := range lists {
			if l == nil {
				continue
			}
			for _, field := range l.List {
				ids = append(ids, field.Names...)
			}
		}
	}
	assigned := func(tok token.Token, exprs ...ast.Expr) {
		if tok != token.DEFINE {
			return
		}
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok {
				ids = append(ids, id)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			if n.Name != nil {
				ids = append(ids, n.Name)
			}
		case *ast.FuncDecl:
			params(n.Recv)
			if n.Recv == nil {
				ids = append(ids, n.Name)
			}
		case *ast.FuncType:
			params(n.TypeParams, n.Params, n.Results)
		case *ast.TypeSpec:
			ids = append(ids, n.Name)
			params(n.TypeParams)
		case *ast.ValueSpec:
			ids = append(ids, n.Names...)
		case *ast.AssignStmt:
			assigned(n.Tok, n.Lhs...)
		case *ast.RangeStmt:
			assigned(n.Tok, n.Key, n.Value)
		}
		return true
	})
	return ids
}
