package wire

import (
	"bytes"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/history"
)

// object contains the fields that are read from an object of any kind and encoding.
type object struct {
	kind, name, generateName, namespace, uid, resourceVersion string

	code       int32 // of a Status
	initialEnd bool  // the bookmark that ends the initial events
	// precondition: DeleteOptions, or those of an Eviction, have a precondition; versionPrecondition: one on
	// the resourceVersion.
	precondition, versionPrecondition bool
}

// versioned reports whether the object has a resourceVersion or UID.
func (o *object) versioned() bool { return o.resourceVersion != "" || o.uid != "" }

func (o *object) named() history.Object {
	return history.Object{Namespace: o.namespace, Name: o.name, UID: o.uid}
}

// revision returns the resourceVersion; 0 if it is missing or not a number, which aggregated API
// servers may return.
func (o *object) revision() int64 {
	n, err := strconv.ParseInt(o.resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// protobufMagic is the prefix of every object in protobuf.
var protobufMagic = []byte("k8s\x00")

// readObject reads an object in any encoding.
func readObject(body []byte) (object, error) {
	if bytes.HasPrefix(body, cborMagic) {
		return readCBOR(body)
	}
	if rest, ok := bytes.CutPrefix(body, protobufMagic); ok {
		return readProtobuf(rest)
	}
	return readJSON(body)
}

func readJSON(body []byte) (o object, err error) {
	s := scan{b: body}
	if s.space() != '{' {
		return o, errJSON
	}
	err = o.scan(&s)
	return o, err
}

// scan reads the object that starts here. It may stop inside the object when no needed field can
// follow.
func (o *object) scan(s *scan) error {
	var status, table object // used if the kind is Status or Table
	metadata := false
	err := s.object(func(key []byte) (more bool, err error) {
		switch string(key) {
		case "kind":
			err = s.set(&o.kind)
		case "metadata":
			metadata = true
			err = o.scanMetadata(s)
		case "preconditions":
			err = o.scanPreconditions(s)
		case "deleteOptions":
			err = s.object(func(key []byte) (bool, error) {
				if string(key) == "preconditions" {
					return true, o.scanPreconditions(s)
				}
				return true, s.skip()
			})
		case "code":
			var v []byte
			v, err = s.value()
			n, _ := strconv.ParseInt(string(v), 10, 32)
			status.code = int32(n)
		case "details":
			err = status.scanMetadata(s)
		case "rows":
			err = s.first(func() error { return table.scanRow(s) })
		default:
			err = s.skip()
		}
		return !(metadata && o.kind != "" && !moreThanMetadata(o.kind)), err
	})
	switch o.kind {
	case "Status":
		o.code, o.name, o.uid = status.code, status.name, status.uid
	case "Table":
		o.name, o.namespace, o.uid = table.name, table.namespace, table.uid
		if o.resourceVersion == "" {
			o.resourceVersion = table.resourceVersion
		}
	}
	return err
}

// moreThanMetadata reports whether fields outside the metadata are needed for this kind.
func moreThanMetadata(kind string) bool {
	switch kind {
	case "Status", "Table", "DeleteOptions", "Eviction":
		return true
	}
	return false
}

// scanRow reads the object in a row of a Table.
func (o *object) scanRow(s *scan) error {
	return s.object(func(key []byte) (bool, error) {
		if string(key) != "object" {
			return true, s.skip()
		}
		return true, s.object(func(key []byte) (bool, error) {
			if string(key) != "metadata" {
				return true, s.skip()
			}
			return true, o.scanMetadata(s)
		})
	})
}

func (o *object) scanMetadata(s *scan) error {
	return s.object(func(key []byte) (bool, error) {
		switch string(key) {
		case "name":
			return true, s.set(&o.name)
		case "generateName":
			return true, s.set(&o.generateName)
		case "namespace":
			return true, s.set(&o.namespace)
		case "uid":
			return true, s.set(&o.uid)
		case "resourceVersion":
			return true, s.set(&o.resourceVersion)
		case "annotations":
			return true, s.object(func(key []byte) (bool, error) {
				value, _, err := s.text()
				o.annotation(key, value)
				return true, err
			})
		}
		return true, s.skip()
	})
}

func (o *object) annotation(key, value []byte) {
	if string(key) == metav1.InitialEventsAnnotationKey {
		o.initialEnd = string(value) == "true"
	}
}

func (o *object) scanPreconditions(s *scan) error {
	return s.object(func(key []byte) (bool, error) {
		switch string(key) {
		case "uid":
			_, ok, err := s.text()
			o.precondition = o.precondition || ok
			return true, err
		case "resourceVersion":
			_, ok, err := s.text()
			if ok {
				o.precondition, o.versionPrecondition = true, true
			}
			return true, err
		}
		return true, s.skip()
	})
}

// set reads a string into a field; the field is unchanged if the value is not a string.
func (s *scan) set(field *string) error {
	value, ok, err := s.text()
	if ok {
		*field = string(value)
	}
	return err
}
