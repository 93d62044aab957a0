package reconcile

// Access is a permission that a controller needs, as an RBAC rule states it. An empty Namespace means
// all namespaces.
type Access struct {
	Group, Resource, Namespace string
	// Name is the only object that is needed; empty: all.
	Name  string
	Verbs []string
}
