package transfer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/convert"
)

// errNeedsJSON reports that an object was not written, because it must be sent as JSON.
var errNeedsJSON = errors.New("the object must be sent as JSON")

// written is an object of the cluster: an *unstructured.Unstructured, or a Go type of client-go.
type written interface {
	runtime.Object
	metav1.Object
}

// protobufClient writes objects whose Go types client-go has in protobuf, which needs less CPU of the command and of the API server than JSON (docs/benchmarks.md#snapshots).
// An object that a Go type does not represent exactly needs JSON.
type protobufClient struct {
	config *rest.Config
	http   *http.Client

	mu       sync.Mutex
	clients  map[schema.GroupVersion]rest.Interface
	rejected map[schema.GroupVersionKind]bool // kinds for which the API server does not accept protobuf
}

func newProtobufClient(config *rest.Config) (*protobufClient, error) {
	config = unlimited(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &protobufClient{config: config, http: client, clients: map[schema.GroupVersion]rest.Interface{}, rejected: map[schema.GroupVersionKind]bool{}}, nil
}

// create creates the object of w and returns it as the API server has stored it. The error is errNeedsJSON if nothing was created for that reason.
func (c *protobufClient) create(ctx context.Context, w *work) (written, error) {
	obj, err := scheme.Scheme.New(w.resource.gvk())
	// client-go sends no request without a namespace; the API server rejects it with an answer, which concerns only this object.
	noNamespace := w.resource.namespaced && w.obj.GetNamespace() == ""
	if err != nil || noNamespace || !represents(obj, w.obj.Object) {
		return nil, errNeedsJSON
	}
	if err := c.send(ctx, http.MethodPost, w, obj); err != nil {
		return nil, err
	}
	return obj.(written), nil // the API server has created no List
}

// updateStatus writes a status to an object that create has returned, and changes live. The error is errNeedsJSON if the type of the object does not represent
// the status.
func (c *protobufClient) updateStatus(ctx context.Context, w *work, live written, status any) error {
	field := reflect.ValueOf(live).Elem().FieldByName("Status")
	content, ok := status.(map[string]any)
	if !ok || !field.IsValid() {
		return errNeedsJSON
	}
	field.SetZero()
	if !represents(field.Addr().Interface(), content) {
		return errNeedsJSON
	}
	return c.send(ctx, http.MethodPut, w, live)
}

// represents reads content into target, a pointer to a struct. It reports whether target now has all of it, with equal values: a snapshot may contain fields that
// client-go does not know, and values that the API server rejects with a better message. Integers
// of more than 32 bits and all fractions count as not represented (package convert).
func represents(target any, content map[string]any) bool {
	return convert.KeepsNumbers(content) && runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, target, true) == nil
}

// send creates the object of w (POST) or writes its status (PUT), and replaces obj by the answer.
func (c *protobufClient) send(ctx context.Context, method string, w *work, obj runtime.Object) error {
	if _, ok := obj.(runtime.ProtobufMarshaller); !ok {
		return errNeedsJSON
	}
	client, err := c.client(w.resource.gvk())
	if err != nil {
		return err
	}
	request := client.Verb(method).Resource(w.resource.Resource).NamespaceIfScoped(w.obj.GetNamespace(), w.resource.namespaced)
	if method == http.MethodPut {
		request = request.Name(w.obj.GetName()).SubResource("status")
	}
	err = request.Param("fieldManager", Manager).Body(obj).Do(ctx).Into(obj)
	if apierrors.IsUnsupportedMediaType(err) || apierrors.IsNotAcceptable(err) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.rejected[w.resource.gvk()] = true
		return errNeedsJSON
	}
	return err
}

// client returns the client of a kind. The error is errNeedsJSON if the API server has rejected protobuf for it.
func (c *protobufClient) client(k schema.GroupVersionKind) (rest.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rejected[k] {
		return nil, errNeedsJSON
	}
	gv := k.GroupVersion()
	if client, ok := c.clients[gv]; ok {
		return client, nil
	}
	config := rest.CopyConfig(c.config)
	config.GroupVersion, config.APIPath = &gv, "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	client, err := rest.RESTClientForConfigAndClient(config, c.http)
	if err != nil {
		return nil, fmt.Errorf("a client of %s: %w", strings.TrimPrefix(gv.String(), "/"), err)
	}
	c.clients[gv] = client
	return client, nil
}
