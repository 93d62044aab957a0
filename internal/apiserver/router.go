package apiserver

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/emicklei/go-restful/v3"
)

// router selects the route of a request as upstream's restful.CurlyRouter does, and remembers its choice for other requests with the same
// fixed path segments, method and headers. Upstream compares each request with each of the several hundred routes of its API version.
//
// It asks upstream again for each path that could match routes with other fixed segments.
type router struct {
	upstream restful.CurlyRouter
	paths    atomic.Pointer[paths]
}

// maxChoices limits how many choices are remembered, and maxHeaders the bytes of the headers of one of them: clients may send any header. When there are too
// many, all are forgotten.
const (
	maxChoices = 10_000
	maxHeaders = 512
)

// paths are the paths of all routes.
type paths struct {
	services []*restful.WebService // as the container has them
	roots    map[string]*segment   // by the root path of the service
	choices  atomic.Int64
}

// segment is a segment of the paths of a service.
type segment struct {
	fixed     map[string]*segment // the next segment, by its text
	parameter *segment            // the next segment, if it is a parameter
	special   bool                // the next segment may be another kind of parameter
	end       bool                // a path ends here
	choices   sync.Map            // of choice to chosen
}

// choice is what the choice of a route depends on besides the path.
type choice struct{ method, contentType, accept string }

// copied returns c without references to the memory of the request.
func (c choice) copied() choice {
	return choice{strings.Clone(c.method), strings.Clone(c.contentType), strings.Clone(c.accept)}
}

// chosen is a route.
type chosen struct {
	service *restful.WebService
	route   *restful.Route
}

// newRouter creates the router of a server. Tests replace it to see what a server passes to it.
var newRouter = func() restful.RouteSelector { return &router{} }

// SelectRoute implements restful.RouteSelector.
func (r *router) SelectRoute(services []*restful.WebService, request *http.Request) (*restful.WebService, *restful.Route, error) {
	known := r.paths.Load()
	if known == nil || !known.of(services) {
		known = newPaths(services)
		r.paths.Store(known)
	}
	end := known.find(request.URL.Path)
	if end == nil {
		return r.upstream.SelectRoute(services, request)
	}
	by := choice{request.Method, request.Header.Get("Content-Type"), request.Header.Get("Accept")}
	if c, ok := end.choices.Load(by); ok {
		c := c.(chosen)
		return c.service, c.route, nil
	}
	service, route, err := r.upstream.SelectRoute(services, request)
	if err == nil && len(by.contentType)+len(by.accept) <= maxHeaders {
		if known.choices.Add(1) > maxChoices {
			r.paths.CompareAndSwap(known, nil)
		} else {
			end.choices.Store(by.copied(), chosen{service, route})
		}
	}
	return service, route, err
}

// of reports whether the paths are those of these services.
func (p *paths) of(services []*restful.WebService) bool {
	return len(p.services) == len(services) && (len(services) == 0 || &p.services[0] == &services[0])
}

func newPaths(services []*restful.WebService) *paths {
	p := &paths{services: services, roots: map[string]*segment{}}
	for _, s := range services {
		root := &segment{}
		for _, r := range s.Routes() {
			if rest, ok := strings.CutPrefix(r.Path, s.RootPath()); ok && len(r.If) == 0 {
				root.add(strings.TrimPrefix(rest, "/"))
			} else {
				root.special = true
			}
		}
		if other := p.roots[s.RootPath()]; other != nil {
			root, other.special = other, true
		}
		p.roots[s.RootPath()] = root
	}
	return p
}

// add adds a path below s.
func (s *segment) add(path string) {
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, "/")
		simple := strings.HasPrefix(name, "{") && strings.HasSuffix(name, "}")
		switch {
		case strings.Contains(name, ":") || strings.Contains(name, "{") != simple:
			s.special = true
			return
		case simple:
			if s.parameter == nil {
				s.parameter = &segment{}
			}
			s = s.parameter
		default:
			if s.fixed == nil {
				s.fixed = map[string]*segment{}
			}
			if s.fixed[name] == nil {
				s.fixed[name] = &segment{}
			}
			s = s.fixed[name]
		}
	}
	s.end = true
}

// find returns the last segment of a path if only routes with the same fixed segments match the path, otherwise nil.
func (p *paths) find(path string) *segment {
	s, rest := p.root(path)
	for s != nil && !s.special {
		if rest == "" {
			if s.end {
				return s
			}
			return nil
		}
		var name string
		var more bool
		if name, rest, more = strings.Cut(rest, "/"); name == "" || more && rest == "" {
			return nil
		}
		next := s.fixed[name]
		if next != nil && s.parameter != nil {
			return nil
		}
		if next == nil {
			next = s.parameter
		}
		s = next
	}
	return nil
}

// root returns the first segment of the version of the API to which a path belongs, and the rest of the path.
func (p *paths) root(path string) (*segment, string) {
	segments := 4 // "", "apis", the group and the version
	if strings.HasPrefix(path, "/api/") {
		segments = 3
	}
	end := 0
	for range segments - 1 {
		next := strings.IndexByte(path[min(end+1, len(path)):], '/')
		if next < 0 {
			return nil, ""
		}
		end += 1 + next
	}
	return p.roots[path[:end]], path[end+1:]
}
