package wire

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// readProtobuf reads the bytes after the magic number: a runtime.Unknown that contains the object.
func readProtobuf(body []byte) (o object, err error) {
	var raw []byte
	err = fields(body, func(n protowire.Number, v []byte, _ uint64) {
		switch n {
		case 1: // TypeMeta
			err := fields(v, func(n protowire.Number, v []byte, _ uint64) {
				if n == 2 {
					o.kind = string(v)
				}
			})
			if err != nil {
				o.kind = ""
			}
		case 2:
			raw = v
		}
	})
	if err != nil {
		return o, err
	}
	return o, o.message(raw)
}

// message reads the object itself. All kinds with metadata have it in field 1.
func (o *object) message(raw []byte) error {
	var inner error
	keep := func(err error) {
		if inner == nil {
			inner = err
		}
	}
	err := fields(raw, func(n protowire.Number, v []byte, number uint64) {
		switch {
		case o.kind == "DeleteOptions":
			if n == 2 {
				keep(o.preconditions(v))
			}
		case n == 1 && (o.kind == "Status" || strings.HasSuffix(o.kind, "List")):
			keep(fields(v, func(n protowire.Number, v []byte, _ uint64) {
				if n == 2 {
					o.resourceVersion = string(v)
				}
			}))
		case n == 1:
			keep(o.metadata(v))
		case o.kind == "Status" && n == 5:
			keep(fields(v, func(n protowire.Number, v []byte, _ uint64) {
				switch n {
				case 1:
					o.name = string(v)
				case 6:
					o.uid = string(v)
				}
			}))
		case o.kind == "Status" && n == 6:
			o.code = int32(number)
		case o.kind == "Eviction" && n == 2: // DeleteOptions
			keep(fields(v, func(n protowire.Number, v []byte, _ uint64) {
				if n == 2 {
					keep(o.preconditions(v))
				}
			}))
		}
	})
	keep(err)
	return inner
}

// metadata reads an ObjectMeta.
func (o *object) metadata(v []byte) error {
	var inner error
	err := fields(v, func(n protowire.Number, v []byte, _ uint64) {
		switch n {
		case 1:
			o.name = string(v)
		case 2:
			o.generateName = string(v)
		case 3:
			o.namespace = string(v)
		case 5:
			o.uid = string(v)
		case 6:
			o.resourceVersion = string(v)
		case 12:
			var key, value []byte
			inner = fields(v, func(n protowire.Number, v []byte, _ uint64) {
				switch n {
				case 1:
					key = v
				case 2:
					value = v
				}
			})
			o.annotation(key, value)
		}
	})
	if err == nil {
		err = inner
	}
	return err
}

func (o *object) preconditions(v []byte) error {
	return fields(v, func(n protowire.Number, _ []byte, _ uint64) {
		o.precondition = o.precondition || n == 1 || n == 2
		o.versionPrecondition = o.versionPrecondition || n == 2
	})
}

// fields calls field for each field of a protobuf message, with its bytes, or with its number if it
// is a varint.
func fields(message []byte, field func(n protowire.Number, v []byte, number uint64)) error {
	for len(message) > 0 {
		n, typ, size := protowire.ConsumeTag(message)
		if size < 0 {
			return errProtobuf
		}
		message = message[size:]
		var v []byte
		var number uint64
		switch typ {
		case protowire.BytesType:
			v, size = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(message)
		default:
			size = protowire.ConsumeFieldValue(n, typ, message)
		}
		if size < 0 {
			return errProtobuf
		}
		message = message[size:]
		field(n, v, number)
	}
	return nil
}
