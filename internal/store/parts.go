package store

import (
	"bytes"
	"encoding/binary"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
)

// Most writes of a pod change one or two of its three parts: a delete with a grace period changes the metadata, a status the metadata and the
// status. A new version shares the others with the version before, so they are not decoded again.
//
// That is right only for kinds whose spec and status are decoded, given defaults and converted without each other and without the metadata. It holds for
// pods (upstream's SetObjectDefaults_Pod and Convert_v1_Pod_To_core_Pod), but not for Services, whose spec.type decides on a default of
// their status. TestPartsOfPods compares both ways.

// The bytes of a pod before and after its message, in the storage's protobuf encoding: the magic number, the apiVersion and the kind of the enclosing
// runtime.Unknown and the tag of its raw field; and its empty content encoding and content type.
const (
	podHead = "k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12"
	podTail = "\x1a\x00\x22\x00"
)

// podFields are the fields of a pod that a new version can share, by their numbers in the protobuf message.
var podFields = [...]string{2: "Spec", 3: "Status"}

// podParts are the metadata, the spec and the status of an encoded pod, by their numbers, each with its tag and length.
type podParts [len(podFields)][]byte

// splitPod splits an encoded pod. It returns false if the bytes are something else, or a pod that has a part twice or an unknown one.
func splitPod(data []byte) (parts podParts, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(podHead))
	if !ok {
		return parts, false
	}
	raw, n := protowire.ConsumeBytes(rest)
	if n < 0 || string(rest[n:]) != podTail {
		return parts, false
	}
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeField(raw)
		if n < 0 || kind != protowire.BytesType || int(number) >= len(parts) || parts[number] != nil {
			return parts, false
		}
		parts[number], raw = raw[:n], raw[n:]
	}
	return parts, true
}

// encode returns the bytes of a pod of these parts.
func (p podParts) encode() []byte {
	size := 0
	for _, part := range p {
		size += len(part)
	}
	data := append(make([]byte, 0, len(podHead)+binary.MaxVarintLen64+size+len(podTail)), podHead...)
	data = protowire.AppendVarint(data, uint64(size))
	for _, part := range p {
		data = append(data, part...)
	}
	return append(data, podTail...)
}

// decodeAfter decodes data, which replaces the value of an earlier version of the same key. It shares the parts that are equal in both.
func (s *objects) decodeAfter(earlier *version, data []byte) (runtime.Object, error) {
	from, changed, kept := s.equalParts(earlier, data)
	if len(kept) == 0 {
		return s.decodeNew(data)
	}
	obj, err := s.decodeNew(changed.encode())
	if err != nil {
		return nil, err
	}
	to := reflect.ValueOf(obj).Elem()
	for _, name := range kept {
		to.FieldByName(name).Set(from.FieldByName(name))
	}
	return obj, nil
}

// equalParts returns the pod of the earlier version, the names of its fields that data does not change, and the parts that it changes. There are
// none of these names if the earlier version has not been decoded by this Storage, or if either is not a pod.
func (s *objects) equalParts(earlier *version, data []byte) (from reflect.Value, changed podParts, kept []string) {
	if earlier == nil {
		return from, changed, nil
	}
	known := earlier.decoded.Load()
	if known == nil || known.by != s || s.goType == nil || reflect.TypeOf(known.obj) != s.goType {
		return from, changed, nil
	}
	before, ok := splitPod(earlier.value)
	if !ok {
		return from, changed, nil
	}
	if changed, ok = splitPod(data); !ok {
		return from, changed, nil
	}
	for number, name := range podFields {
		if name != "" && len(changed[number]) > 0 && bytes.Equal(changed[number], before[number]) {
			kept, changed[number] = append(kept, name), nil
		}
	}
	return reflect.ValueOf(known.obj).Elem(), changed, kept
}
