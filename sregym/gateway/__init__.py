"""All that an agent can reach: kube proxy, submission API, model relay.

Belongs here: what stands between an agent and the world. Must not be here: containers (sregym.agents), verdicts,
anything that knows a concrete problem. Every door asks for the attempt's token; nothing here answers a question about
grades. One kind of thing lives outside an agent's reach although it stands here: the desk, through which submissions
get to the coordinator.
"""
