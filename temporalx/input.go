package temporalx

import (
	"encoding/json"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/onceguard/onceguard/guard"
)

// comparableArgs gives the arguments a JSON form that shows all of them. What
// encoding/json shows of a protobuf message depends on how it was generated, and
// of values that are still encoded it shows nothing.
func comparableArgs(data converter.DataConverter, args []any) ([]any, error) {
	shown := make([]any, len(args))
	for i, arg := range args {
		var err error
		if shown[i], err = comparableArg(data, arg); err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	return shown, nil
}

func comparableArg(data converter.DataConverter, arg any) (any, error) {
	switch arg := arg.(type) {
	case proto.Message:
		shown, err := protojson.Marshal(arg)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", guard.ErrInvalidInput, err)
		}
		return json.RawMessage(shown), nil
	case converter.RawValue:
		return showPayload(arg.Payload()), nil
	case converter.EncodedValues:
		return comparablePayloads(data, arg)
	default:
		return arg, nil
	}
}

// comparablePayloads undoes the codec, since encryption differs each time.
func comparablePayloads(data converter.DataConverter, values converter.EncodedValues) ([]shownPayload, error) {
	payloads := converter.GetPayloads(values)
	if payloads == nil && values.HasValues() {
		return nil, fmt.Errorf("%w: %T does not show its payloads", guard.ErrInvalidInput, values)
	}
	shown := make([]shownPayload, 0, len(payloads.GetPayloads()))
	for _, payload := range payloads.GetPayloads() {
		var raw converter.RawValue
		if err := data.FromPayload(payload, &raw); err != nil {
			return nil, fmt.Errorf("decode: %w", err)
		}
		shown = append(shown, showPayload(raw.Payload()))
	}
	return shown, nil
}

type shownPayload struct {
	Metadata map[string][]byte
	Data     []byte
}

func showPayload(p *commonpb.Payload) shownPayload {
	return shownPayload{Metadata: p.GetMetadata(), Data: p.GetData()}
}
