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

// Call describes a request in terms of the Kubernetes API.
type Call struct {
	// Object is the object of the request, without its UID. The name of a create comes from the
	// body. A Namespace has a name and no namespace. For a request outside the resource API, Name
	// is the path and the other fields are empty.
	history.Object
	// Verb is get, list, watch, create, update, patch, delete or deletecollection; outside the
	// resource API, it is the HTTP method in lower case.
	Verb        string
	Subresource string
	// Query contains the parameters that select objects, sorted by name and unescaped, as in
	// "labelSelector=app=web&limit=500".
	Query string
	// Watch is true if the answer is a stream of frames.
	Watch bool
	// Preconditioned is true if the write contains a resourceVersion or UID, so that the API
	// rejects it if the object has changed or was replaced.
	Preconditioned bool
	// Versioned is true if the write contains a resourceVersion, so that the API answers 409 if another
	// client has written the object.
	Versioned bool
	// FromRevision is the resourceVersion parameter of a read.
	FromRevision string
	// SendInitialEvents is true if a watch requests the existing objects first.
	SendInitialEvents bool
	// Older is true for a list that permits an answer from an older state, and for a watch with SendInitialEvents: client-go
	// replaces it by such a list if it fails.
	Older bool
	// Continue is the token of the further page that a list requests.
	Continue     string
	GenerateName string
	// Digest is the digest of the body (see [Digest]); empty without a body.
	Digest string
}

// DescribeCall reads a request. Fields that come from the body stay empty if its encoding is
// unknown.
func DescribeCall(method string, u *url.URL, header http.Header, body []byte) Call {
	var c Call
	c.setPath(method, u.Path)
	c.setQuery(u.RawQuery)
	c.Watch = c.Verb == "watch"
	if len(body) > 0 {
		c.Digest = Digest(body)
		c.setBody(header.Get("Content-Type"), body)
	}
	return c
}

func (c *Call) setBody(mediaType string, body []byte) {
	switch c.Verb {
	case "patch":
		c.Preconditioned, c.Versioned = patchPreconditions(mediaType, body)
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
		// The API ignores the UID of a new object.
		if c.Verb == "update" || c.Subresource != "" {
			c.Preconditioned, c.Versioned = o.versioned() || o.precondition, o.resourceVersion != "" || o.versionPrecondition
		}
	case "delete", "deletecollection":
		if o, err := readObject(body); err == nil {
			c.Preconditioned, c.Versioned = o.precondition, o.versionPrecondition
		}
	}
}

// patchPreconditions reports whether a patch contains a resourceVersion or UID, and whether the API
// answers 409 if the resourceVersion differs. In a JSON patch any operation on one of them counts,
// because the API compares the result; but a test that fails is answered 422.
func patchPreconditions(mediaType string, body []byte) (preconditioned, versioned bool) {
	switch types.PatchType(mediaType) {
	case types.JSONPatchType:
		var operations []struct{ Op, Path string }
		if json.Unmarshal(body, &operations) != nil {
			return false, false
		}
		for _, o := range operations {
			version := o.Path == "/metadata/resourceVersion"
			preconditioned = preconditioned || version || o.Path == "/metadata/uid"
			versioned = versioned || version && (o.Op == "add" || o.Op == "replace")
		}
		return preconditioned, versioned
	case types.ApplyYAMLPatchType:
		if body[0] != '{' { // client-go sends JSON, which is YAML too
			text, err := yaml.YAMLToJSON(body)
			if err != nil {
				return false, false
			}
			body = text
		}
	}
	o, err := readObject(body)
	return err == nil && o.versioned(), err == nil && o.resourceVersion != ""
}

// Resumes reports whether the request is a watch that continues from a revision.
func (c *Call) Resumes() bool { return c.Watch && c.FromRevision != "" && !c.SendInitialEvents }

// Item describes the request for the matching with faults.
func (c *Call) Item(actor string) fault.Item {
	resource := c.Resource
	if c.Subresource != "" {
		resource += "/" + c.Subresource
	}
	return fault.Item{
		Class: fault.Call, Actor: actor, Verb: c.Verb, Resource: resource, Object: c.Key(),
		Write: history.IsWriteVerb(c.Verb), Versioned: c.Versioned, Older: c.Older, Continues: c.Continue != "",
	}
}

// Step returns the step of the request, as far as the request determines it. A create with a fixed name is guarded: if it is
// repeated, the API answers AlreadyExists.
func (c *Call) Step(actor string) history.Step {
	return history.Step{
		Kind: history.Request, Actor: actor, Verb: c.Verb, Object: c.Object, Subresource: c.Subresource, Query: c.Query, Digest: c.Digest,
		Guarded: c.Preconditioned || c.Verb == "create" && c.GenerateName == "", Versioned: c.Versioned, Older: c.Older,
	}
}
