package stages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/stage"
)

// fieldManager is the field manager of server-side apply.
const fieldManager = "rehearse-stage-engine"

// users are the clients for JSON requests about any kind: one for the engine itself, and one for each user
// that it impersonates.
type users struct {
	config *rest.Config

	mu   sync.Mutex
	each map[string]rest.Interface
}

func newUsers(cfg *rest.Config) *users {
	own := rest.CopyConfig(cfg)
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	own.GroupVersion = &schema.GroupVersion{}
	own.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return &users{config: own, each: map[string]rest.Interface{}}
}

// client returns the client that impersonates a user; "" is the engine itself.
func (u *users) client(user string) (rest.Interface, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.each[user]; c != nil {
		return c, nil
	}
	cfg := rest.CopyConfig(u.config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user}
	c, err := rest.UnversionedRESTClientFor(cfg)
	if err == nil {
		u.each[user] = c
	}
	return c, err
}

// place is the resource of a kind and its path in the API.
type place struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

// url returns the path of an object.
func (p place) url(namespace, name, subresource string) string {
	parts := []string{"/api", p.resource.Version}
	if p.resource.Group != "" {
		parts = []string{"/apis", p.resource.Group, p.resource.Version}
	}
	if p.namespaced {
		parts = append(parts, "namespaces", namespace)
	}
	return path.Join(append(parts, p.resource.Resource, name, subresource)...)
}

// placeOf returns the place of a kind. Pods and nodes are known; the mapper finds other kinds once, and again
// after it did not find them.
func (e *StageEngine) placeOf(k stage.Kind) (place, error) {
	switch k {
	case stage.KindPod, stage.KindNode:
		return place{corev1.SchemeGroupVersion.WithResource(strings.ToLower(k.Kind) + "s"), k == stage.KindPod}, nil
	}
	gvk := k.GroupVersionKind()
	mapping, err := e.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		e.mapper.Reset()
		mapping, err = e.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return place{}, err
	}
	return place{mapping.Resource, mapping.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}

// errMoved is the error that a kind's definition was deleted and created again with another resource or scope.
// The request went to a path that is not served, and is sent again.
var errMoved = errors.New("the kind is served under another path now")

// resetEvery is the minimal time between two resets of the mapper, except for kinds that were not found yet.
const resetEvery = 5 * time.Second

// checkMoved returns errMoved in place of the error of a request to a path that does not serve the kind any
// more.
func (e *StageEngine) checkMoved(err error, k stage.Kind, at place) error {
	if !noResource(err) || k == stage.KindPod || k == stage.KindNode {
		return err
	}
	e.resetMapper()
	if now, lost := e.placeOf(k); lost == nil && now != at {
		return fmt.Errorf("%w: %s", errMoved, err.Error())
	}
	return err
}

// resetMapper resets the mapper, unless that was done recently.
func (e *StageEngine) resetMapper() {
	now := int64(e.options.Clock.Since(e.started)) // the monotonic clock; the wall clock may be set back
	if last := e.looked.Load(); now-last >= int64(resetEvery) && e.looked.CompareAndSwap(last, now) {
		e.mapper.Reset()
	}
}

// noResource reports whether the API does not serve the path. If only the object is missing, the error names
// the object.
func noResource(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// requestError is the failure of one request of a list.
type requestError struct {
	step int
	json bool // the request was a JSON patch
	err  error
}

func (r *requestError) Error() string { return r.err.Error() }
func (r *requestError) Unwrap() error { return r.err }

// send carries out one request. The answer is nil if it is about another object; version is the object's
// version after it.
func (e *StageEngine) send(ctx context.Context, r *stage.Request, before string) (answer stage.Object, version string, err error) {
	key := objectKey{kind: r.Kind, namespace: r.Namespace, name: r.Name}
	if r.Own && r.As == "" && key.typed() {
		answer, version, err = e.patchTyped(ctx, key, r, before)
		return answer, version, explainNotFound(err, r)
	}
	at, err := e.placeOf(r.Kind)
	if err != nil {
		return nil, before, err
	}
	if at.namespaced && r.Namespace == "" {
		return nil, before, &stage.Error{Field: "metadata.namespace", Problem: fmt.Sprintf("%s %s needs a namespace, because the object of the stage is cluster-scoped", r.Kind, r.Name)}
	}
	client, err := e.users.client(r.As)
	if err != nil {
		return nil, before, err
	}
	body, err := r.Payload(before)
	if err != nil {
		return nil, before, err
	}
	var data []byte
	switch {
	case r.Verb == stage.VerbApply && r.Type != types.ApplyPatchType && !r.Own && r.Subresource == "":
		data, err = e.createOrPatch(ctx, client, at, r, body)
	default:
		data, err = answered(patchRequest(client, at, r).Body(body).Do(ctx))
	}
	if err != nil && r.Subresource != "" {
		return nil, before, explainNotFound(err, r) // the object is read next
	}
	if err != nil || !r.Own {
		return nil, before, e.checkMoved(err, r.Kind, at)
	}
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, before, fmt.Errorf("the answer to the %s of %s: %w", r.Type, r.Name, err)
	}
	if head.ResourceVersion != "" {
		version = head.ResourceVersion
	}
	// The answer to a request for a subresource such as scale is of another kind.
	if head.APIVersion != r.Kind.APIVersion || head.Kind != r.Kind.Kind || head.UID != r.UID {
		return nil, version, nil
	}
	answer, err = decode(r.Kind, data)
	return answer, version, err
}

// explainNotFound adds to the error of a subresource that was not found what may be missing: the API names only the
// object, also if its kind has no such subresource.
func explainNotFound(err error, r *stage.Request) error {
	if r.Subresource == "" || !apierrors.IsNotFound(err) {
		return err
	}
	return fmt.Errorf("%w: the object does not exist, or %s has no subresource %s", err, r.Kind, r.Subresource)
}

// patchTyped is send for a pod or a node itself, whose answer is in protobuf.
func (e *StageEngine) patchTyped(ctx context.Context, k objectKey, r *stage.Request, before string) (stage.Object, string, error) {
	body, err := r.Payload(before)
	if err != nil {
		return nil, before, err
	}
	patch := call{method: http.MethodPatch, path: k.path(r.Subresource), query: "fieldManager=" + fieldManager, encoding: string(r.Type), body: body}
	if r.Type == types.ApplyPatchType {
		patch.query += "&force=true"
	}
	answer, err := e.sendAbout(ctx, k, patch)
	if err != nil || answer == nil {
		return nil, before, err
	}
	if answer.GetUID() != r.UID {
		return nil, answer.GetResourceVersion(), nil
	}
	return answer, answer.GetResourceVersion(), nil
}

func patchRequest(client rest.Interface, at place, r *stage.Request) *rest.Request {
	request := client.Patch(r.Type).MaxRetries(0).AbsPath(at.url(r.Namespace, r.Name, r.Subresource)).Param("fieldManager", fieldManager)
	if r.Type == types.ApplyPatchType {
		request = request.Param("force", "true")
	}
	return request
}

// answered returns the body of an answer. It calls Error first, which decodes the Status in the body of an
// error; Raw does not.
func answered(r rest.Result) ([]byte, error) {
	if err := r.Error(); err != nil {
		return nil, err
	}
	return r.Raw()
}

// createOrPatch creates an object, or patches it if it exists.
func (e *StageEngine) createOrPatch(ctx context.Context, client rest.Interface, at place, r *stage.Request, body []byte) ([]byte, error) {
	data, err := answered(client.Post().MaxRetries(0).AbsPath(at.url(r.Namespace, "", "")).Param("fieldManager", fieldManager).Body(body).Do(ctx))
	if !apierrors.IsAlreadyExists(err) {
		return data, err
	}
	return answered(patchRequest(client, at, r).Body(body).Do(ctx))
}

// decode decodes an object into the form that the table stores.
func decode(k stage.Kind, data []byte) (stage.Object, error) {
	if key := (objectKey{kind: k}); key.typed() {
		typed := key.empty()
		err := json.Unmarshal(data, typed)
		typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		dropManagedFields(typed)
		return typed, err
	}
	u := &unstructured.Unstructured{}
	err := u.UnmarshalJSON(data)
	dropManagedFields(u)
	return u, err
}

// readLive reads the newest version of an object.
func (e *StageEngine) readLive(ctx context.Context, k objectKey) (stage.Object, error) {
	if k.typed() {
		live, err := e.sendAbout(ctx, k, call{method: http.MethodGet, path: k.path("")})
		if err == nil && live == nil {
			err = fmt.Errorf("the answer to the GET of %s is another kind", k)
		}
		return live, err
	}
	at, err := e.placeOf(k.kind)
	if err != nil {
		return nil, err
	}
	client, err := e.users.client("")
	if err != nil {
		return nil, err
	}
	data, err := answered(client.Get().MaxRetries(0).AbsPath(at.url(k.namespace, k.name, "")).Do(ctx))
	if err != nil {
		return nil, e.checkMoved(err, k.kind, at)
	}
	return decode(k.kind, data)
}

// remove deletes an object with preconditions.
func (e *StageEngine) remove(ctx context.Context, k objectKey, options *metav1.DeleteOptions) error {
	if k.typed() {
		body, err := encode("v1", "DeleteOptions", options)
		if err == nil {
			_, err = e.direct.send(ctx, call{method: http.MethodDelete, path: k.path(""), body: body})
		}
		return err
	}
	at, err := e.placeOf(k.kind)
	if err != nil {
		return err
	}
	client, err := e.users.client("")
	if err != nil {
		return err
	}
	body, err := json.Marshal(options)
	if err != nil {
		return err
	}
	return e.checkMoved(client.Delete().MaxRetries(0).AbsPath(at.url(k.namespace, k.name, "")).Body(body).Do(ctx).Error(), k.kind, at)
}
