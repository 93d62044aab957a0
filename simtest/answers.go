package simtest

import (
	"hash/maphash"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// The runs of one test have much in common: the same request, in the same state of what it depends
// on, in the same second. The API server processes it once; its answer and its writes are cached
// and repeated in the other runs, which saves more than half of the work of a search.
//
// That is correct only if the answer depends on nothing but the run's world. Other requests
// are always sent to the server: see cacheable. The flag -simtest.ask turns the cache off.

// served is a request that the API has answered.
type served struct {
	answer
	feed *feed // of a watch that has started

	described bool // whether object and revision were read from a successful answer
	object    history.Object
	revision  int64

	writes []store.Change
	size   int64
}

// answers is the cache of the server's answers.
type answers struct {
	mu    sync.Mutex
	known map[question]*served
	size  int64
	hits  int // how often an answer was found
}

// question is the key of an answer: a request in a state of the world.
type question struct {
	seed, past, request uint64
	second              int64
}

// maxAnswers is the maximum size of the cache in bytes. A larger one is emptied.
const maxAnswers = 128 << 20

func (a *answers) get(q question) *served {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.known[q]
	if s != nil {
		a.hits++
	}
	return s
}

func (a *answers) put(q question, s *served) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil || a.size+s.size > maxAnswers {
		a.known, a.size = map[question]*served{}, 0
	}
	a.known[q] = s
	a.size += s.size
}

func (a *answers) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.size = nil, 0
}

// served returns the answer to a request, from the cache or the API server.
func (w *World) served(p *parked) *served {
	var q question
	cached := !*flagAsk && cacheable(p)
	var s *served
	asked := w.server.do(func(x *exchange) {
		w.fill(x, p)
		if cached {
			q = w.question(x, p)
			if s = w.server.answers.get(q); s != nil {
				x.known = true
			}
		}
	})
	defer w.server.release(asked)
	if s != nil {
		if err := w.store.Repeat(s.writes); err != nil {
			w.fail("cached answers can be repeated", err.Error())
		}
		again := *s
		again.header = again.header.Clone()
		return &again
	}
	w.reseed() // the server has drawn from the source that the controllers draw from
	s = &served{answer: answer{code: asked.code, header: asked.answer, body: slices.Clone(asked.out.Bytes())}}
	switch {
	case asked.aborted:
		return &served{answer: answer{err: errLost}}
	case asked.feed != nil && asked.code == http.StatusOK:
		s.feed = asked.feed
		return s
	case asked.code/100 == 2:
		o, revision, err := wire.ReadAnswer(asked.answer.Get("Content-Type"), s.body)
		s.described, s.object, s.revision = err == nil, o, revision
	}
	if cached && asked.code < http.StatusInternalServerError && asked.code != http.StatusTooManyRequests {
		writes, err := w.store.Changes(w.truth.Revision())
		if err != nil {
			return s // serve reports the error
		}
		s.writes, s.size = writes, int64(len(s.body))+512
		for i := range writes {
			s.size += writes[i].Size()
		}
		kept := *s
		kept.header = kept.header.Clone()
		w.server.answers.put(q, &kept)
	}
	return s
}

// question returns the key of the answer to a request.
func (w *World) question(x *exchange, p *parked) question {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	text := func(s string) {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	text(x.actor)
	text(x.method)
	text(x.url)
	for _, name := range slices.Sorted(maps.Keys(x.header)) {
		text(name)
		for _, value := range x.header[name] {
			text(value)
		}
	}
	maphash.WriteComparable(&h, x.names)
	_, _ = h.Write(x.body)
	q := question{seed: w.plan.Seed, past: w.truth.WritesHash(), request: h.Sum64()}
	switch c := &p.call; {
	case concernsOne(c):
		q.past = w.truth.HashFor(c.Resource, c.Namespace, c.Name)
	case c.Verb == "list":
		q.past = w.truth.HashOf(c.Resource)
	}
	if p.call.Verb != "get" && p.call.Verb != "list" {
		q.second = w.clock.now().Unix()
	}
	return q
}

// concernsOne reports whether the answer to a request depends on no other object of the request's resource.
// In the group rbac it may: the API compares a role with those that the user already has. Cluster-wide objects
// are left out, because the API compares some kinds with each other.
func concernsOne(c *wire.Call) bool {
	switch c.Verb {
	case "create", "get", "update", "patch", "delete":
	default:
		return false
	}
	return c.Namespace != "" && (c.Name != "" || c.GenerateName != "") && !strings.HasSuffix(c.Resource, ".rbac.authorization.k8s.io")
}

// uncacheable are the resources for which the answer depends on more than the run's world:
// addresses and ports of Services, tokens, certificates, and what configures the server itself.
var uncacheable = []string{
	"services", "serviceaccounts/token", "certificatesigningrequests", "customresourcedefinitions",
	"webhookconfigurations", "admissionpolic", "reviews", "podcertificaterequests", "servicecidrs", "ipaddresses",
}

// cacheable reports whether the answer to a request may be cached.
func cacheable(p *parked) bool {
	c := &p.call
	if c.Watch || c.Resource == "" {
		return false
	}
	resource := c.Resource
	if c.Subresource != "" {
		plural, _, _ := strings.Cut(resource, ".")
		resource = plural + "/" + c.Subresource
	}
	return !slices.ContainsFunc(uncacheable, func(part string) bool { return strings.Contains(resource, part) })
}

var hashSeed = maphash.MakeSeed()
