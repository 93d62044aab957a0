package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// public are the entries of floors that library users import; docs/reference/stability.md lists them.
var public = []string{"api", "cluster", "fault", "history", "invariant", "scenario", "simtest", "stage"}

// checkExported reports where the exported API of a public package mentions a type of internal/... that users cannot
// name. An exported alias in the same package gives it a name.
func checkExported(set *token.FileSet, files []*ast.File) (violations []string) {
	named := map[string]bool{} // import path and name of internal types that an exported alias names
	for _, f := range files {
		imports := importNames(f)
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok && t.Assign.IsValid() && t.Name.IsExported() {
					if path, name := selected(imports, t.Type); internal(path) {
						named[path+"."+name] = true
					}
				}
			}
		}
	}
	for _, f := range files {
		imports := importNames(f)
		for _, d := range f.Decls {
			forExported(d, func(where string, n ast.Node) {
				ast.Inspect(n, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.FuncLit, *ast.BlockStmt:
						return false
					case *ast.StructType:
						for _, field := range n.Fields.List { // unexported fields are no API
							if len(field.Names) > 0 && !slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
								field.Type = ast.NewIdent("_")
							}
						}
					case *ast.SelectorExpr:
						if path, name := selected(imports, n); internal(path) && ast.IsExported(name) && !named[path+"."+name] {
							at := set.Position(n.Pos())
							violations = append(violations, fmt.Sprintf("%s:%d: exported %s mentions %s.%s, which users cannot name: declare an exported alias or another type",
								filepath.Base(at.Filename), at.Line, where, strings.TrimPrefix(path, Module+"/"), name))
						}
					}
					return true
				})
			})
		}
	}
	return violations
}

// forExported calls visit with the types that an exported declaration mentions. Right-hand sides of aliases are their
// own names and are left out.
func forExported(d ast.Decl, visit func(where string, n ast.Node)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() {
			return
		}
		where := d.Name.Name
		if d.Recv != nil {
			receiver := baseName(d.Recv.List[0].Type)
			if !ast.IsExported(receiver) {
				return
			}
			where = receiver + "." + where
		}
		visit(where, d.Type)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && !s.Assign.IsValid() {
					visit(s.Name.Name, s.Type)
				}
			case *ast.ValueSpec:
				if i := slices.IndexFunc(s.Names, (*ast.Ident).IsExported); i >= 0 && s.Type != nil {
					visit(s.Names[i].Name, s.Type)
				}
			}
		}
	}
}

// baseName is the name of a receiver's type, without pointer and type parameters.
func baseName(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// importNames maps the name of each import in a file to its path.
func importNames(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if path == "math/rand/v2" {
			name = "rand"
		}
		if i.Name != nil {
			name = i.Name.Name
		}
		names[name] = path
	}
	return names
}

// selected is the import path and name of an expression pkg.Name, "" for others.
func selected(imports map[string]string, e ast.Expr) (path, name string) {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return imports[x.Name], s.Sel.Name
		}
	}
	return "", ""
}

func internal(path string) bool { return strings.HasPrefix(path, Module+"/internal/") }
