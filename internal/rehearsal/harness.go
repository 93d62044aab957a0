package rehearsal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// Options configure a harness.
type Options struct {
	Scenario *scenario.Scenario
	// Dir holds certificates and the files of clients. Open creates it with mode 0700.
	Dir string
	// Version is the version of this program.
	Version string
	// Kinds installs the CustomResourceDefinitions that controllers need, once, before the first run.
	Kinds func(context.Context, *rest.Config) error
	// Conversions are the conversion webhooks of kinds with several versions, as in apiserver.Options.
	Conversions map[types.NamespacedName]http.Handler
	// NewControllers prepares, in each run, the controllers that run alongside the clients. It returns a
	// function that runs them until its context is done. config returns the client configuration of an actor:
	// its writes are recorded under that name. dir holds the keys of the API server.
	NewControllers func(ctx context.Context, config func(actor string) *rest.Config, dir string) (func(context.Context), error)
	// Builtin returns the command of a client that is a controller of this program.
	Builtin func(name string, gates map[string]bool) []string
	// Target is an external cluster to run in, one run at a time. If it is nil, Open starts an in-process API
	// server. With a target, the harness ignores the scenario's nodes, Kinds, Conversions and NewControllers:
	// the target has its own.
	Target *rest.Config
	// QPS limits the requests per second that the harness itself sends to the target (default DefaultQPS).
	// Clients limit their own requests.
	QPS float32
	// Logs, if set, is called for each line that a client prints.
	Logs func(run int64, client, line string)
}

// DefaultQPS is the default limit of requests per second that a harness sends to an external cluster.
const DefaultQPS = 50

// Harness runs a scenario: it holds the environment and the objects that every run begins with.
type Harness struct {
	o           Options
	environment environment
	mapper      meta.RESTMapper
	decodings   *verdict.Decodings
	runs        atomic.Int64
	timeouts    timeouts
	policy      verdict.Policy
}

// Open starts the API server, or connects to the target, and creates the initial objects.
func Open(ctx context.Context, o Options) (*Harness, error) {
	a := &Harness{o: o, timeouts: defaultTimeouts, policy: policyOf(o.Scenario), decodings: verdict.NewDecodings(apiserver.DecodeStored)}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if o.Target != nil {
		a.environment = newExternalCluster(a)
	} else if a.environment, err = startForks(ctx, o); err != nil {
		return nil, err
	}
	if err := a.prepare(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Close stops the API server, or restores the target to the state that Open found. No run may be in progress.
// The error says what could not be restored.
func (a *Harness) Close() error { return a.environment.close() }

// prepare creates the initial objects of every run.
func (a *Harness) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := a.environment.setUp(ctx); err != nil {
		return err
	}
	config := a.environment.config("prepare")
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, o := range a.o.Scenario.Objects {
		if err := a.put(ctx, config, client, &unstructured.Unstructured{Object: o}); err != nil {
			return err
		}
	}
	if err := a.discover(ctx, config); err != nil {
		return err
	}
	return a.environment.captureInitial(ctx)
}

// discover waits until the API serves the kinds that the initial objects define. The API server serves a new
// kind a moment after its definition was created.
func (a *Harness) discover(ctx context.Context, config *rest.Config) error {
	var missing error
	served := func(context.Context) (bool, error) {
		if a.mapper == nil {
			if a.mapper, missing = discovered(config); missing != nil {
				return false, nil
			}
		}
		for _, o := range a.o.Scenario.Objects {
			if missing = isDefined(a.mapper, o); missing != nil {
				a.mapper = nil
				return false, nil
			}
		}
		return true, nil
	}
	if err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 15*time.Second, true, served); err != nil {
		return cmp.Or(missing, err)
	}
	return nil
}

// isDefined returns an error if the object defines a kind that the API does not serve.
func isDefined(mapper meta.RESTMapper, o map[string]any) error {
	if o["kind"] != "CustomResourceDefinition" {
		return nil
	}
	group, _, _ := unstructured.NestedString(o, "spec", "group")
	kind, _, _ := unstructured.NestedString(o, "spec", "names", "kind")
	if _, err := mapper.RESTMappings(schema.GroupKind{Group: group, Kind: kind}); err != nil {
		return fmt.Errorf("CustomResourceDefinition of %s: the API does not serve the kind: %w", kind, err)
	}
	return nil
}

// put applies an initial object. It retries while the API does not serve a kind that was defined a moment
// ago.
func (a *Harness) put(ctx context.Context, config *rest.Config, client dynamic.Interface, o *unstructured.Unstructured) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 15*time.Second, true, func(ctx context.Context) (bool, error) {
		if a.mapper == nil {
			if a.mapper, last = discovered(config); last != nil {
				return false, nil
			}
		}
		if last = a.putOnce(ctx, client, o); last == nil {
			return true, nil
		}
		if isNotServed(last) {
			a.mapper = nil // discovery is updated a moment after a definition was created
			return false, nil
		}
		return false, last
	})
	if err != nil && last != nil {
		err = last
	}
	if o.GetKind() == "CustomResourceDefinition" {
		a.mapper = nil
	}
	return err
}

func (a *Harness) putOnce(ctx context.Context, client dynamic.Interface, o *unstructured.Unstructured) error {
	to, err := resourceFor(client, a.mapper, o)
	if err != nil {
		return err
	}
	return a.environment.createInitial(ctx, to, o)
}

func discovered(config *rest.Config) (meta.RESTMapper, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return nil, err
	}
	return restmapper.NewDiscoveryRESTMapper(groups), nil
}

// apply applies an object as `kubectl apply --server-side --force-conflicts` does.
func apply(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, o *unstructured.Unstructured) error {
	to, err := resourceFor(client, mapper, o)
	if err != nil {
		return err
	}
	return applyTo(ctx, to, o)
}

func applyTo(ctx context.Context, to dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	if _, err := to.Apply(ctx, o.GetName(), withoutServerFields(o), metav1.ApplyOptions{FieldManager: "user", Force: true}); err != nil {
		return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// resourceFor returns the client for an object. A namespaced object without a namespace belongs to default.
func resourceFor(client dynamic.Interface, mapper meta.RESTMapper, o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := o.GroupVersionKind()
	m, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("%s %s: the API does not serve this kind: %w", kind.Kind, o.GetName(), err)
	}
	return resourceIn(client, m.Resource, m.Scope.Name() == meta.RESTScopeNameNamespace, o.GetNamespace()), nil
}

func resourceIn(client dynamic.Interface, resource schema.GroupVersionResource, namespaced bool, namespace string) dynamic.ResourceInterface {
	to := client.Resource(resource)
	if !namespaced {
		return to
	}
	return to.Namespace(cmp.Or(namespace, metav1.NamespaceDefault))
}

// withoutServerFields returns the object without the metadata that the API server adds.
func withoutServerFields(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
	return o
}
