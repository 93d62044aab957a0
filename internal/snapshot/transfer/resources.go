package transfer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/nearest"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// OptionError reports an option that the API server does not support, such as an unknown kind.
type OptionError struct{ Message string }

func (e *OptionError) Error() string { return e.Message }

// resource is a kind that an API server serves.
type resource struct {
	schema.GroupVersionResource
	kind       string
	namespaced bool
	status     bool     // it has the subresource status
	watchable  bool     // it can be watched
	names      []string // that users write: plural, singular, kind, short names
}

func (r resource) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: r.Group, Kind: r.kind}
}

func (r resource) gvk() schema.GroupVersionKind { return r.GroupVersion().WithKind(r.kind) }

// clients are the clients of one cluster.
type clients struct {
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	discovery discovery.DiscoveryInterface
}

// unlimited returns a copy of a configuration without client-side limits: Save sends one request at a time, and Restore has a limit of its own.
func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	if config.WarningHandlerWithContext == nil {
		config.WarningHandler = rest.NoWarnings{} // an object of the user may use a deprecated version
	}
	return config
}

// connect creates clients without client-side limits. Requests of the discovery client, which have no context, end with ctx.
func connect(ctx context.Context, config *rest.Config) (c clients, err error) {
	config = unlimited(config)
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return c, err
	}
	if c.metadata, err = metadata.NewForConfig(config); err != nil {
		return c, err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return ending{ctx, next} })
	c.discovery, err = discovery.NewDiscoveryClientForConfig(config)
	return c, err
}

// ending is a transport whose requests end with a context.
type ending struct {
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (e ending) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	context.AfterFunc(e.ctx, func() { cancel(e.ctx.Err()) })
	return e.next.RoundTrip(r.WithContext(ctx))
}

// served returns the kinds that can be listed and created, each version of them. Groups that do not answer, such as those of an
// aggregated server that is down, are reported with warn.
func (c clients) served(warn func(string, ...any)) ([]resource, error) {
	_, lists, err := c.discovery.ServerGroupsAndResources()
	return collect(lists, err, warn)
}

// preferred returns each kind that can be listed and created, in the version that the API server prefers.
func (c clients) preferred(warn func(string, ...any)) ([]resource, error) {
	lists, err := discovery.ServerPreferredResources(c.discovery)
	return collect(lists, err, warn)
}

func collect(lists []*metav1.APIResourceList, err error, warn func(string, ...any)) (out []resource, _ error) {
	var failed *discovery.ErrGroupDiscoveryFailed
	if errors.As(err, &failed) {
		for gv, err := range failed.Groups {
			warn("the API server does not list the kinds of %s, which are left out: %v", gv, err)
		}
	} else if err != nil {
		return nil, err
	}
	status := map[schema.GroupVersionResource]bool{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range l.APIResources {
			if name, ok := strings.CutSuffix(r.Name, "/status"); ok {
				status[gv.WithResource(name)] = true
			}
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "create") {
				continue
			}
			names := append([]string{r.Name, r.SingularName, strings.ToLower(r.Kind)}, r.ShortNames...)
			out = append(out, resource{GroupVersionResource: gv.WithResource(r.Name), kind: r.Kind, namespaced: r.Namespaced, watchable: slices.Contains(r.Verbs, "watch"), names: names})
		}
	}
	for i := range out {
		out[i].status = status[out[i].GroupVersionResource]
	}
	return out, nil
}

// choose returns the resources of a list of names (as for kubectl: pods, po, deployments.apps, Widget.example.com), all of them
// if the list is empty. It leaves out kinds that no snapshot contains; to name one is an error.
func choose(all []resource, only []string) ([]resource, error) {
	var out []resource
	for _, name := range only {
		r, ok, err := find(all, name)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, &OptionError{fmt.Sprintf("the API server has no kind %q that can be listed and created; nearest names: %s", name, strings.Join(nearest.Names(name, known(all), 3), ", "))}
		}
		if !slices.ContainsFunc(out, func(o resource) bool { return o.GroupVersionResource == r.GroupVersionResource }) {
			out = append(out, r)
		}
	}
	if len(only) == 0 {
		out = slices.DeleteFunc(slices.Clone(all), func(r resource) bool { return snapshot.LeaveOutKind(r.groupKind()) != "" })
	}
	slices.SortStableFunc(out, func(a, b resource) int { return snapshot.CompareKinds(a.groupKind(), b.groupKind()) })
	return out, nil
}

// find returns the first resource that a user can mean by a name. A kind that no snapshot contains is an error.
func find(all []resource, name string) (r resource, ok bool, err error) {
	i := slices.IndexFunc(all, func(r resource) bool { return r.matches(name) })
	if i < 0 {
		return r, false, nil
	}
	if reason := snapshot.LeaveOutKind(all[i].groupKind()); reason != "" {
		return r, false, &OptionError{fmt.Sprintf("kind %q is never part of a snapshot: %s", name, reason)}
	}
	return all[i], true, nil
}

// matches reports whether a user means this resource by NAME or NAME.GROUP.
func (r resource) matches(name string) bool {
	name, group, qualified := strings.Cut(strings.ToLower(name), ".")
	return name != "" && slices.Contains(r.names, name) && (!qualified || group == r.Group)
}

func known(all []resource) (names []string) {
	for _, r := range all {
		if names = append(names, r.Resource); r.Group != "" {
			names = append(names, r.Resource+"."+r.Group)
		}
	}
	return names
}
