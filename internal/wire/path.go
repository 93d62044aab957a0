package wire

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// DescribePath reads the path of a request: its Verb, Resource, Subresource, Namespace and
// Name, as far as they do not depend on query or body. A prefix before /api or /apis, such as
// that of a proxy, is ignored.
func DescribePath(method, path string) Call {
	var c Call
	api, apis := strings.Index(path, "/api/"), strings.Index(path, "/apis/")
	if api < 0 || apis >= 0 && apis < api {
		api = apis
	}
	c.setPath(method, path[max(api, 0):])
	return c
}

// setPath reads the path as the API server's request info does.
func (c *Call) setPath(method, path string) {
	c.Verb, c.Name = strings.ToLower(method), path
	rest, group, ok := cutVersion(path)
	if !ok {
		return
	}
	first, after, _ := strings.Cut(rest, "/")
	verb := methodVerb(method)
	if first == "watch" || first == "proxy" { // deprecated since 1.11, but still supported
		if after == "" {
			return
		}
		verb, rest = first, after
		first, after, _ = strings.Cut(rest, "/")
	}
	c.Name = ""
	if first == "namespaces" && after != "" {
		namespace, within, _ := strings.Cut(after, "/")
		resource, _, _ := strings.Cut(within, "/")
		switch resource {
		case "", "status", "finalize": // the request is for the namespace itself
		default:
			c.Namespace, rest = namespace, within
		}
	}
	c.Resource, rest, _ = strings.Cut(rest, "/")
	c.Name, rest, _ = strings.Cut(rest, "/")
	if verb != "watch" && verb != "proxy" {
		c.Subresource, _, _ = strings.Cut(rest, "/")
	}
	if group != "" {
		c.Resource += "." + group
	}
	if c.Name == "" {
		switch verb {
		case "get":
			verb = "list" // or watch, which depends on the query
		case "delete":
			verb = "deletecollection"
		}
	}
	c.Verb = verb
}

// cutVersion removes /api/v1/ or /apis/GROUP/VERSION/ from a path.
func cutVersion(path string) (rest, group string, ok bool) {
	path = strings.Trim(path, "/")
	root, rest, _ := strings.Cut(path, "/")
	switch root {
	case "api":
	case "apis":
		group, rest, _ = strings.Cut(rest, "/")
	default:
		return "", "", false
	}
	_, rest, _ = strings.Cut(rest, "/")
	return rest, group, rest != ""
}

func methodVerb(method string) string {
	switch method {
	case "GET", "HEAD":
		return "get"
	case "POST":
		return "create"
	case "PUT":
		return "update"
	}
	return strings.ToLower(method) // patch, delete
}

// how are the parameters that define how an answer is sent, and those that have their own field in
// Call.
var how = []string{"allowWatchBookmarks", "pretty", "resourceVersion", "timeout", "timeoutSeconds", "watch"}

// setQuery reads the parameters; the path must have been read.
func (c *Call) setQuery(raw string) {
	if raw == "" {
		return
	}
	values, _ := url.ParseQuery(raw) // ignores unreadable parameters, as the server does
	if v, ok := values["watch"]; ok && c.Verb == "list" && isTrue(v[0]) {
		c.Verb = "watch"
	}
	c.FromRevision = values.Get("resourceVersion")
	if v, ok := values["sendInitialEvents"]; ok {
		c.SendInitialEvents = isTrue(v[0])
	}
	if c.Verb == "list" {
		c.Continue = values.Get("continue")
	}
	c.Older = c.permitsOlder(values)
	keys := make([]string, 0, len(values))
	for k := range values {
		if !slices.Contains(how, k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, k := range keys {
		for _, v := range values[k] {
			if v == "" {
				continue // an empty selector has the same effect as none
			}
			if b.Len() > 0 {
				b.WriteByte('&')
			}
			b.WriteString(k)
			b.WriteByte('=')
			b.WriteString(v)
		}
	}
	c.Query = b.String()
}

// permitsOlder reports whether the answer may come from an older state: see "Resource versions" in API Concepts. A list from a
// revision with a limit is answered as of exactly that revision.
func (c *Call) permitsOlder(values url.Values) bool {
	if c.Verb != "list" {
		return c.Verb == "watch" && c.SendInitialEvents
	}
	if c.FromRevision == "" || c.Continue != "" {
		return false
	}
	switch match := values.Get("resourceVersionMatch"); {
	case match != "":
		return match == "NotOlderThan"
	case c.FromRevision == "0":
		return true
	default:
		limit := values.Get("limit")
		return limit == "" || limit == "0"
	}
}

// AsOf returns the URL of a list that the server answers as of an older revision. If target has an unknown form, it is returned.
func AsOf(target string, revision int64) string {
	u, err := url.Parse(target)
	if err != nil {
		return target
	}
	q := u.Query()
	q.Set("resourceVersion", strconv.FormatInt(revision, 10))
	q.Set("resourceVersionMatch", "Exact")
	u.RawQuery = q.Encode()
	return u.String()
}

// isTrue reads a boolean parameter as the API server does: every value except 0 and false is true.
func isTrue(v string) bool { return v != "0" && !strings.EqualFold(v, "false") }
