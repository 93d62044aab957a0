package reconcile

// Access is a permission that a controller needs, as an RBAC rule states it. An empty Namespace means
// all namespaces.
type Access struct {
	Group, Resource, Namespace string
	Verbs                      []string
}
