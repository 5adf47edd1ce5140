from holdfast.client.library import AsyncClient as AsyncClient
from holdfast.client.library import Client as Client

__version__: str
