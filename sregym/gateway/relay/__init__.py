"""Parts of the model relay: protocols, what is refused, prices, records, translations.

Nothing here knows of HTTP servers or of the agent's container; `sregym.gateway.model_relay` puts the parts together.
"""
