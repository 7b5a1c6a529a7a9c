package main

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
)

// holdReports is a gRPC interceptor that stops a worker at the worst moment: the
// card is charged and the activity has returned, but the report to Temporal does
// not leave. It tells the demo, which kills the worker there.
func holdReports(
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if !strings.HasSuffix(method, "/RespondActivityTaskCompleted") {
		return invoke(ctx, method, req, reply, conn, opts...)
	}
	fmt.Println("is about to report the receipt to Temporal, and is held there")
	tell(wordHolding, "")
	<-ctx.Done()
	return ctx.Err()
}

// holdReceipt stops a worker one step earlier, at the other bad moment: the card is
// charged, and only the activity knows.
func holdReceipt(ctx context.Context) {
	say(ctx, "holds the receipt, and nobody else knows of it")
	tell(wordHolding, "")
	<-ctx.Done()
}
