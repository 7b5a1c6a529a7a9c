package endings

import "go.temporal.io/sdk/worker"

// ofKinds are the other kinds of activities, each with an answer that is lost.
func ofKinds() []ending {
	return []ending{
		{name: "local activity, its answer is lost", setup: setup{losesReply: true, plan: plan{Kind: local}}},
		{name: "dynamic activity, its answer is lost", setup: setup{losesReply: true, dynamic: true}},
		{name: "activity in a session, its answer is lost", setup: setup{
			losesReply: true, unruled: true, plan: plan{Kind: session}, worker: worker.Options{EnableSessionWorker: true},
		}},
		{name: "activity of a child workflow, its answer is lost", setup: setup{losesReply: true, plan: plan{Kind: ofChild}}},
	}
}
