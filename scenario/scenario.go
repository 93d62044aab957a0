package scenario

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
)

// The defaults of fields that a scenario omits.
const (
	DefaultNodes  = 2
	DefaultRuns   = 200
	DefaultBudget = 5 * time.Minute
	DefaultWithin = 30 * time.Second
)

// DefaultControllers returns the controllers of a scenario that does not set spec.cluster.controllers. Those that are
// clients of the scenario (builtin) do not run alongside them.
func DefaultControllers() []string { return []string{"stage", "scheduler"} }

// Scenario is a checked scenario, with its defaults.
type Scenario struct {
	// Name is metadata.name, File the name that was passed to Read.
	Name, File string
	// Spec is the spec of the file, with the changes of SetCommand and SetLevel.
	Spec v1alpha1.ScenarioSpec

	// Nodes is the number of simulated nodes of the cluster, Controllers are the names of its controllers,
	// and Stages are files or names of built-in stages. Objects are created before a run, in this order.
	Nodes       int
	Controllers []string
	Stages      []string
	Objects     []map[string]any

	// Clients are the programs under test. Their Dir is relative to the caller's working directory, not to
	// the scenario's file.
	Clients []v1alpha1.Client
	Steps   []Step
	// EndsVary disables the comparison of final states between runs.
	EndsVary bool
	// Ignore are fields that are not compared with those of runs without faults, and Disabled the names of
	// automatic invariants that are not checked.
	Ignore   []v1alpha1.Ignored
	Disabled []string

	// Level bounds the faults; Patterns are the faults that the search may inject: those of the
	// scenario, or all of the level.
	Level    fault.Level
	Patterns []fault.Fault
	// Except are patterns that the search never injects, and Trusted the clients that get no faults.
	Except  []fault.Fault
	Trusted []string
	// Runs and Budget end the search.
	Runs   int
	Budget time.Duration

	invariants boundInvariants
	meta       metav1.ObjectMeta
	root       at
}

// checker compiles one scenario.
type checker struct {
	problems
	s        *Scenario
	readFile func(string) ([]byte, error)
	files    map[string][]at // documents that have been read
	scopes   map[string]bool // resources that the scenario itself defines; see scope
}

// Read reads and validates a scenario: one YAML or JSON document without unknown fields. It reads the files
// that the scenario names with readFile, which receives the scenario's directory joined with the path in
// the file. Mistakes are returned as [Errors].
func Read(name string, data []byte, readFile func(string) ([]byte, error)) (*Scenario, error) {
	c := &checker{s: &Scenario{File: name}, readFile: readFile, files: map[string][]at{}, scopes: map[string]bool{}}
	docs := c.documents(name, data)
	switch {
	case len(c.all) > 0:
	case len(docs) == 0:
		c.report(at{file: name}, "", "is empty; want one %s", v1alpha1.ScenarioKind)
	case len(docs) > 1:
		c.report(docs[1], "", "is a second document; want one in each file %s", v1alpha1.ScenarioKind)
	default:
		c.scenario(docs[0])
	}
	if err := c.err(name); err != nil {
		return nil, err
	}
	return c.s, nil
}

func (c *checker) scenario(root at) {
	c.s.root = root
	version, kind := root.field("apiVersion"), root.field("kind")
	if want := v1alpha1.GroupVersion.String(); version.text() != want || kind.text() != v1alpha1.ScenarioKind {
		c.report(kind, "", "this is kind %q of apiVersion %q; only kind %s of apiVersion %s is supported",
			kind.text(), version.text(), v1alpha1.ScenarioKind, want)
		return
	}
	var doc v1alpha1.Scenario
	if !c.decode(root, &doc) {
		return
	}
	s, spec := c.s, root.field("spec")
	s.Name, s.meta, s.Spec = doc.Name, doc.ObjectMeta, doc.Spec
	name := root.field("metadata").field("name")
	if wrong := validation.IsDNS1123Subdomain(s.Name); s.Name == "" {
		c.report(name, "", "is missing")
	} else if len(wrong) > 0 {
		c.report(name, s.Name, "must be lower case letters, digits, - and ., such as rolling-update")
	}
	c.cluster(spec.field("cluster"))
	c.clients(spec.field("clients"))
	c.steps(spec.field("steps"))
	c.invariants(spec.field("invariants"))
	c.faults(spec.field("faults"))
	c.budget(spec.field("budget"))
}

func (c *checker) cluster(a at) {
	s, cluster := c.s, &c.s.Spec.Cluster
	s.Nodes = DefaultNodes
	if n := cluster.Nodes; n != nil {
		s.Nodes = *n
		if *n < 0 {
			c.report(a.field("nodes"), fmt.Sprint(*n), "must not be negative")
		}
	}
	s.Controllers = slices.Clone(cluster.Controllers)
	if !a.field("controllers").given() {
		s.Controllers = withoutClients(DefaultControllers(), s.Spec.Clients)
	}
	for i, name := range cluster.Controllers {
		one := a.field("controllers").item(i)
		switch {
		case name == "":
			c.report(one, "", "must name a controller")
		case slices.Index(cluster.Controllers, name) < i:
			c.report(one, name, "is listed twice; remove one")
		}
	}
	for i, file := range cluster.Stages {
		one := a.field("stages").item(i)
		if !isBuiltin(file) {
			file = c.resolve(file)
			c.read(one, file)
		}
		s.Stages = append(s.Stages, file)
	}
	for i := range cluster.Objects {
		s.Objects = append(s.Objects, c.manifest(a.field("objects").item(i), &cluster.Objects[i], applied)...)
	}
}

// withoutClients returns the controllers that are not under test: a second instance alongside the client would do its
// work.
func withoutClients(controllers []string, clients []v1alpha1.Client) []string {
	return slices.DeleteFunc(controllers, func(name string) bool {
		return slices.ContainsFunc(clients, func(c v1alpha1.Client) bool { return c.Builtin == name })
	})
}

func (c *checker) budget(a at) {
	s, budget := c.s, &c.s.Spec.Budget
	s.Runs, s.Budget = DefaultRuns, DefaultBudget
	if n := budget.Runs; n < 0 {
		c.report(a.field("runs"), fmt.Sprint(n), "must not be negative")
	} else if n > 0 {
		s.Runs = n
	}
	if budget.Time != nil {
		s.Budget = c.duration(a.field("time"), budget.Time, DefaultBudget)
	}
}

// resolve returns the path of a file that the scenario names, as the caller finds it.
func (c *checker) resolve(file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(filepath.Dir(c.s.File), file)
}

// read reads a file that the scenario names.
func (c *checker) read(a at, file string) (data []byte, ok bool) {
	if file == "" {
		c.report(a, "", "must name a file")
		return nil, false
	}
	err := error(nil)
	if c.readFile == nil {
		err = fmt.Errorf("files cannot be read here; write the object in place")
	} else {
		data, err = c.readFile(file)
	}
	if err != nil {
		c.report(a, a.text(), "%v", err)
		return nil, false
	}
	return data, true
}

// Problem returns an error about a field of the scenario, such as "spec.clients[0].builtin", with its line
// and value. It is for checks that only the caller can make.
func (s *Scenario) Problem(path, reason string) error {
	a := s.root.follow(path)
	return &Error{File: s.File, Line: a.line, Path: path, Value: short(a.text()), Reason: reason}
}
