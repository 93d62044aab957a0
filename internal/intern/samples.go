package intern

import (
	"reflect"
	"sync"
)

// maxSamples limits the number of earlier objects that Samples keeps. When there are too many, all are forgotten.
const maxSamples = 4096

// Samples are earlier objects with which later ones share memory. The zero value is ready for use. The methods are safe for
// concurrent use.
type Samples struct {
	mu    sync.Mutex
	known map[group]reflect.Value
}

// group is what objects have in common that are expected to be similar.
type group struct {
	goType reflect.Type
	name   string
}

// Share lets an object share its equal parts with the object of its type that was last remembered with the same name of a
// group, for example the UID of the owner. obj is a pointer to a struct that no other goroutine uses yet. Nothing that it refers to may
// be modified from then on, and both objects have the texts of their quantities (FillTexts).
func (s *Samples) Share(name string, obj any) {
	b, ok := structure(obj)
	if !ok {
		return
	}
	s.mu.Lock()
	a, ok := s.known[group{b.Type(), name}]
	s.mu.Unlock()
	if ok && a.Pointer() != b.Pointer() {
		share(a.Elem(), b.Elem())
	}
}

// Remember makes an object the one with which later objects of the group share their equal parts. From then on, the object may not be modified.
func (s *Samples) Remember(name string, obj any) {
	b, ok := structure(obj)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxSamples {
		s.known = map[group]reflect.Value{}
	}
	s.known[group{b.Type(), name}] = b
}

// structure returns the value of a pointer to a struct.
func structure(obj any) (v reflect.Value, ok bool) {
	v = reflect.ValueOf(obj)
	return v, v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.Struct
}
