package wire

import (
	"encoding/json"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// Call is a request in the words of the Kubernetes API.
type Call struct {
	// Object is what the request is about, without its UID. The name of a create
	// is the one in the body. A namespace has a name and no namespace. A request
	// for something that is no resource has its path as Name and nothing else.
	history.Object
	// Verb is get, list, watch, create, update, patch, delete or
	// deletecollection; of what is no resource the method in lower case.
	Verb        string
	Subresource string
	// Query is the parameters that say what is asked for, in the order of their
	// names and without escapes, as in "labelSelector=app=web&limit=500".
	Query string
	// Watch says that the answer is a stream of frames.
	Watch bool
	// Preconditioned says that the write names a resourceVersion or UID, so that
	// the API refuses it if the object is another by now.
	Preconditioned bool
	// Guarded says that the API may answer 409: the write is preconditioned, or it
	// is a PATCH.
	Guarded bool
	// FromRevision is the resourceVersion parameter of a read.
	FromRevision string
	// SendInitialEvents says that a watch asks to be told first what there is.
	SendInitialEvents bool
	GenerateName      string
	// Digest is of the body (see [Digest]); empty if there is none.
	Digest string
}

// DescribeCall reads a request. What a body in a form other than JSON or protobuf
// says stays empty.
func DescribeCall(method string, u *url.URL, header http.Header, body []byte) Call {
	var c Call
	c.setPath(method, u.Path)
	c.setQuery(u.RawQuery)
	c.Watch = c.Verb == "watch"
	if len(body) > 0 {
		c.Digest = Digest(body)
		c.setBody(header.Get("Content-Type"), body)
	}
	c.Guarded = c.Preconditioned || c.Verb == "patch"
	return c
}

func (c *Call) setBody(mediaType string, body []byte) {
	switch c.Verb {
	case "patch":
		c.Preconditioned = patchNames(mediaType, body)
	case "create", "update":
		o, err := readObject(body)
		if err != nil {
			return
		}
		if c.Verb == "create" && c.Name == "" && c.Resource != "" {
			c.Name, c.GenerateName = o.name, o.generateName
			if o.name != "" {
				c.GenerateName = ""
			}
		}
		// The API ignores what a new object says of its UID.
		if c.Verb == "update" || c.Subresource != "" {
			c.Preconditioned = o.names() || o.precondition
		}
	case "delete", "deletecollection":
		o, err := readObject(body)
		c.Preconditioned = err == nil && o.precondition
	}
}

// patchNames tells whether a patch names a resourceVersion or UID. In a JSON patch
// that is any operation on one of them: the API compares what comes out.
func patchNames(mediaType string, body []byte) bool {
	switch types.PatchType(mediaType) {
	case types.JSONPatchType:
		var operations []struct{ Path string }
		if json.Unmarshal(body, &operations) != nil {
			return false
		}
		for _, o := range operations {
			if o.Path == "/metadata/resourceVersion" || o.Path == "/metadata/uid" {
				return true
			}
		}
		return false
	case types.ApplyYAMLPatchType:
		if body[0] != '{' { // client-go sends JSON, which is YAML too
			text, err := yaml.YAMLToJSON(body)
			if err != nil {
				return false
			}
			body = text
		}
	}
	o, err := readObject(body)
	return err == nil && o.names()
}

// Resumes reports whether the request is a watch that continues from a revision.
func (c *Call) Resumes() bool { return c.Watch && c.FromRevision != "" && !c.SendInitialEvents }

// Item is the request as faults see it.
func (c *Call) Item(actor string) fault.Item {
	resource := c.Resource
	if c.Subresource != "" {
		resource += "/" + c.Subresource
	}
	return fault.Item{
		Class: fault.Call, Actor: actor, Verb: c.Verb, Resource: resource, Object: c.Key(),
		Write: history.IsWriteVerb(c.Verb), Guarded: c.Guarded,
	}
}
